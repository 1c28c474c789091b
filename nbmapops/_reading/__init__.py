"""Reading: anything a user passes becomes a MapBatch, or blocks of one."""
