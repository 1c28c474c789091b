"""Reports P26 to P63: what users and hostile inputs ran into, with the result that is right.

P01 to P25 stand in test_reports.py. Most of these are held by the tests of what they concern; what
has no other place is below. P63 are guards: the tests fail when these are taken out.

P26  reading/test_missing.py
         test_missing_integers_are_refused_by_every_call
         test_other_missing_values_are_refused_by_every_call
         test_missing_words_are_refused
P27  reading/test_held.py
         test_a_mapping_that_is_filled_anew_gives_what_it_showed
     test_sklearn.py
         test_p27_each_map_is_read_before_the_next_one_is_asked_for
     test_dask.py
         test_an_iterator_that_refills_one_dict_is_read_map_by_map
P28  reading/test_scalars.py
         test_keys_beyond_int64_are_left_out_where_asked
         test_a_key_beyond_int64_names_text_keys
     reading/test_arrow.py
         test_large_keys_are_left_out_where_asked
     cli/test_jsonlines.py
         test_integers_beyond_int64_cannot_be_words
P29  reading/test_interrupted.py
         test_a_time_limit_comes_out_of_a_call_and_the_next_one_walks
     kernels/test_load.py
         test_a_time_limit_comes_out_of_the_first_call
P30  kernels/test_load.py
         test_an_import_of_numba_that_was_broken_off_is_made_again
P31  test_values.py
         test_numbers_are_rounded_without_struct_which_newer_pythons_let_raise
P32  test_values.py
         test_the_c_library_is_asked_where_there_is_one
P33  reading/test_without_walk.py
         test_dicts_are_read_by_plain_python_which_is_said_once
     cli/test_demo.py
         test_numbers_have_the_digits_that_count
P34  test_changing_data.py
         test_another_thread_changes_dicts_and_the_list
         test_items_that_work_once_are_enough
     reading/test_tables.py
         test_rows_that_change_while_they_are_grouped
P35  test_sklearn.py
         test_p35_an_edit_of_the_vocabulary_counts
P36  test_reports2.py
         test_threads_are_checked_alike_by_every_call
         test_text_and_a_later_bad_map_with_any_number_of_threads
         test_a_machine_that_refuses_a_thread_gives_the_same
P37  test_frozen.py
         test_a_loader_without_source
     test_faults.py
         test_a_package_without_source_files
     reading/test_objects.py
         test_the_module_can_be_imported_where_addresses_are_beyond_int64
P38  kernels/test_arguments.py
         test_other_dtypes_are_refused
P39  reading/test_scalars.py
         test_pairs_are_maps
         test_arrow_maps_in_pandas_are_lists_of_pairs
     test_sklearn.py
         test_p39_lists_of_pairs_are_maps
P40  reading/test_scalars.py
         test_missing_maps_and_values_name_the_remedy
         test_missing_maps_can_be_empty
     test_sklearn.py
         test_p40_a_missing_map_is_an_error_that_says_what_to_do
     test_reports2.py
         test_missing_maps_of_a_bag_name_the_remedy_and_the_partition
P41  reading/test_arrow.py
         test_structs_of_polars_are_maps
P42  reading/test_tables.py
         test_a_long_table_gives_its_maps
         test_columns_of_lists_give_their_maps
         test_sets_of_ids_have_no_values
P43  test_encoder.py
         test_columns_of_keys_of_any_shape
P44  engine/test_expand.py
         test_unknown_keys_meet_in_their_columns_and_are_added_up
     test_encoder.py
         test_words_of_few_maps_are_left_out
P45  reading/test_scalars.py
         test_exact_numbers_are_taken
         test_numbers_that_nothing_holds_exactly_are_overflow_errors
     reading/test_arrow.py
         test_exact_decimals_are_numbers
P46  reading/test_scalars.py
         test_a_nested_map_names_the_remedy
     test_vocabulary.py
         test_a_dict_is_no_vocabulary_and_the_message_says_how_to_make_one
P47  test_sklearn.py
         test_records_are_read_by_the_walk
         test_random_records_give_what_scikit_learn_gives
P48  onnx/test_forms_of_models.py
         test_pickles_hold_model_and_options
P49  onnx/test_forms_of_models.py
         test_a_session_describes_itself_as_that_of_onnxruntime
P50  onnx/test_forms_of_models.py
         test_the_declared_keys_pick_one_of_two_vocabularies
         test_overridable_initializers_may_be_fed
         test_models_that_cannot_be_run_on_a_batch_are_refused_at_once
P51  onnx/test_forms_of_models.py
         test_numbers_beyond_int64_and_float64_are_narrowed_as_onnxruntime_narrows_them
P52  test_dask.py
         test_what_csr_blocks_allow
     test_docs.py
         test_examples_give_what_they_show
P53  reading/test_arrow.py
         test_list_views_with_a_null_row_and_dictionaries
         test_integers_that_arrow_does_not_have_are_a_type_error
         test_no_type_ends_in_an_error_of_pyarrow
     test_reports2.py
         test_parquet_columns_of_one_name_and_names_with_a_dot
P54  cli/test_jsonlines.py
         test_the_compounds_of_the_package_are_converted
         test_dotted_paths_lead_into_objects
P55  cli/test_jsonlines.py
         test_null_skip_leaves_values_out_and_takes_maps_as_empty
         test_one_hot_gives_what_the_estimator_gives
         test_a_json_array_has_a_remedy
P56  cli/test_jsonlines.py
         test_gzip_is_read
         test_zstd_without_a_module_has_a_remedy
P57  cli/test_process.py
         test_a_full_disk_for_what_is_printed
         test_a_pipe_that_nobody_reads
         test_characters_that_the_terminal_does_not_have_are_escaped
         test_closed_streams_end_a_run_in_one_line
P58  cli/test_jsonlines.py
         test_skipped_entries_still_count_when_the_type_is_chosen
         test_an_inexact_integer_is_named_by_its_own_line
         test_an_empty_learned_vocabulary_can_be_used_again
     cli/test_process.py
         test_a_signal_leaves_nothing_behind
         test_symbolic_links_are_written_through
P59  engine/test_choose.py
         test_up_to_20_000_entries_load_no_numba
     cli/test_demo.py
         test_a_file_is_converted_without_the_compiler
P60  test_reports2.py
         test_scipy_comes_with_the_package
P61  test_types.py
         test_checkers_find_mistakes_and_nothing_else
P62  reading/test_arrow.py
         test_a_table_names_its_first_column_of_maps
         test_a_lazy_frame_is_to_be_collected
P63  engine/test_shortcuts.py
         test_bad_offsets_are_refused_by_csr_once_the_kernels_are_loaded
     test_reports2.py
         test_no_thread_writes_after_an_error
         test_ints_that_a_later_float_makes_inexact_in_onnxruntime_semantics
         test_an_inexact_int_goes_before_an_unknown_key_of_its_map
         test_inverse_shares_no_memory_with_a_sparse_matrix
         test_the_command_in_a_thread
         test_out_is_written_as_an_array
         test_rows_of_any_width_that_are_none
     reading/test_missing.py
         test_integers_of_every_container_are_exact
     onnx/test_forms_of_models.py
         test_initializers_of_ir_version_3_are_inputs_that_nobody_feeds
         test_shapes_that_are_declared_for_one_map_hold_for_each_of_a_batch
     kernels/test_changing.py
         test_arrays_that_change_between_two_looks
     reading/test_inputs.py
         test_bad_offsets_as_narrow_and_unsigned_arrays
     reading/test_arrow.py
         test_positions_outside_any_dictionary_are_an_error
"""

from __future__ import annotations

import importlib.metadata
import re
import threading
import time
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._cli.command import main
from nbmapops._engine import plain
from nbmapops._engine.blocks import OK, BadRow, run_blocks
from nbmapops._limits import limits

from .outcomes import WITH_SCIPY
from .ways import WAYS, way

needs_scipy = pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")


def test_each_report_has_its_tests() -> None:
    listed = [line for line in (__doc__ or "").splitlines() if re.match(r"P\d+  |     ", line)]
    assert [line[:3] for line in listed if line[0] == "P"] == [f"P{n}" for n in range(26, 64)]
    text = ""
    for line in listed:
        if line.endswith(".py"):
            text = (Path(__file__).parent / line[5:]).read_text(encoding="utf-8")
        else:
            assert f"def {line.strip()}(" in text, line


# ------------------------------------------------------------------------- P36
@pytest.mark.parametrize(
    ("threads", "error"),
    [(True, TypeError), (1.0, TypeError), ("1", TypeError), (None, TypeError), (0, ValueError),
     (np.True_, TypeError), (-3, ValueError), (np.float64(2), TypeError)],
)  # fmt: skip
def test_threads_are_checked_alike_by_every_call(threads: Any, error: type[Exception]) -> None:
    by_int, by_text = (
        DictVectorizer(int64_vocabulary=[1]),
        DictVectorizer(string_vocabulary=["a"]),
    )
    dense, sparse = CastMap(), CastMap(map_form="SPARSE", max_map=2)
    for op, calls in (
        (by_int, [by_int]),
        (by_text, [by_text]),
        (dense, [dense, dense.ragged]),
        (sparse, [sparse]),
    ):
        key: Any = "a" if op is by_text else 1
        batch = MapBatch.from_dicts([{key: 1.0}])
        for arguments in (
            ({key: 1.0},), ([{key: 1.0}],), (({key: 1.0},),), (iter([{key: 1.0}]),), (batch,),
            ([key], [1.0]), ([key], [1.0], [0, 1]),
        ):  # fmt: skip
            for name in ("as shipped", "plain engine", "compiled engine"):
                for call in (*calls, *([op.csr] if WITH_SCIPY and op is not dense else [])):
                    with way(name), pytest.raises(error, match="threads must be an integer >= 1"):
                        call(*arguments, threads=threads)


def test_text_and_a_later_bad_map_with_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "thread_entries", 1)
    op = DictVectorizer(int64_vocabulary=[1, 2], dtype="int64")
    for name in ("plain engine", "compiled engine", "small blocks of rows"):
        for threads in (1, 2, 4):
            with way(name), pytest.raises(ValueError, match="map 1: key 2: value 'x' cannot"):
                op([1, 2, 9, 1], ["1", "x", "2", "3"], [0, 1, 2, 3, 4], threads=threads)


def test_a_machine_that_refuses_a_thread_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's own code raises it; what other code raises is not the machine's refusal.
    machine: dict[str, Any] = {"__name__": "threading", "start": threading.Thread.start}
    exec(
        "started = []\n"
        "def refuse(thread):\n"
        "    if started:\n"
        "        raise RuntimeError('can\\'t start new thread')\n"
        "    started.append(thread)\n"
        "    start(thread)\n",
        machine,
    )
    done: list[int] = []

    def work(first: int, stop: int) -> tuple[int, int]:
        done.extend(range(first, stop))
        return OK, stop

    monkeypatch.setattr(threading.Thread, "start", machine["refuse"])
    assert run_blocks(work, [(n, n + 1) for n in range(6)], 4) == [1, 2, 3, 4, 5, 6]
    assert sorted(done) == [0, 1, 2, 3, 4, 5]
    assert len(machine["started"]) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("time is up")])
def test_no_thread_writes_after_what_breaks_its_start_off(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    begun, ended, start = threading.Event(), threading.Event(), threading.Thread.start

    def broken_off(thread: threading.Thread) -> None:
        start(thread)
        begun.wait(60)
        raise error

    def work(_: int, stop: int) -> tuple[int, int]:
        begun.set()
        time.sleep(0.2)
        ended.set()
        return OK, stop

    monkeypatch.setattr(threading.Thread, "start", broken_off)
    with pytest.raises(type(error)):
        run_blocks(work, [(n, n + 1) for n in range(6)], 4)
    assert ended.is_set()


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), KeyboardInterrupt(), ZeroDivisionError()]
)
def test_an_exception_in_another_thread_comes_out(error: BaseException) -> None:
    together = threading.Barrier(2)

    def work(_: int, stop: int) -> tuple[int, int]:
        together.wait(30)
        if threading.current_thread() is not threading.main_thread():
            raise error
        return OK, stop

    with pytest.raises(type(error)) as caught:
        run_blocks(work, [(0, 1), (1, 2)], 2)
    assert caught.value is error


# ------------------------------------------------------------------------- P40, P53, P60
def test_missing_maps_of_a_bag_name_the_remedy_and_the_partition() -> None:
    bag = pytest.importorskip("dask.bag")
    dask = pytest.importorskip("nbmapops.dask", exc_type=ImportError)
    maps = bag.from_sequence([{"a": 1}, None, {"b": 2}], npartitions=3)
    op = DictVectorizer(string_vocabulary=["a", "b"], dtype="double")
    calls: list[Any] = [dask.from_maps, lambda bag: dask.dense(op, bag, lengths=[1, 1, 1])]
    for call in calls:
        with pytest.raises(TypeError, match=r'a missing map; .*null_map="empty"') as caught:
            np.asarray(call(maps))
        assert "nbmapops.dask: in partition 1" in caught.value.__notes__


def test_parquet_columns_of_one_name_and_names_with_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    kind = pa.map_(pa.string(), pa.float64())
    one, two = pa.array([[("x", 1.0)]], kind), pa.array([[("y", 2.0)]], kind)
    inside = pa.StructArray.from_arrays([two], ["b"])
    pq.write_table(pa.table({"a": inside, "a.b": one}), "dot.parquet")
    assert main(["dot.parquet", "--column", "a.b", "--dense"]) == 0
    assert Path("dot.vocabulary.json").read_text() == '["x"]'
    pq.write_table(pa.Table.from_arrays([one, two], names=["m", "m"]), "two.parquet")
    capsys.readouterr()
    assert main(["two.parquet", "--column", "m"]) == 2
    assert "there are two columns 'm'" in capsys.readouterr().err


def test_scipy_comes_with_the_package() -> None:
    needed = [each for each in importlib.metadata.requires("nbmapops") or [] if ";" not in each]
    assert {re.split(r"\W", each)[0] for each in needed} == {"numba", "numpy", "scipy"}


# ------------------------------------------------------------------------- P63: guards
def test_no_thread_writes_after_an_error() -> None:
    together = threading.Barrier(2)
    written: list[str] = []

    def work(first: int, _: int) -> tuple[int, int]:
        together.wait(30)
        if threading.current_thread() is threading.main_thread():
            return first, first
        time.sleep(0.1)
        written.append("by the other thread")
        return OK, first

    with pytest.raises(BadRow):
        run_blocks(work, [(0, 1), (1, 2)], 2)
    assert written == ["by the other thread"]


@needs_scipy
def test_ints_that_a_later_float_makes_inexact_in_onnxruntime_semantics() -> None:
    op = DictVectorizer(int64_vocabulary=[1, 2, 3], semantics="onnxruntime")
    maps: list[dict[int, Any]] = [{1: 1}, {2: 2**53 + 1}, {3: 0.5}]
    for name in WAYS:
        for batch in (maps, iter(maps), tuple(maps)):
            with way(name), pytest.raises(OverflowError, match="map 1: key 2: value 9007199254740"):
                op.csr(batch)
        with way(name):
            assert op.csr([maps[0], maps[2]]).toarray().tolist() == [[1, 0, 0], [0, 0, 0.5]]


@needs_scipy
def test_an_inexact_int_goes_before_an_unknown_key_of_its_map() -> None:
    op = DictVectorizer(int64_vocabulary=[1])
    maps: list[dict[int, Any]] = [{1: 1}, {1: 2**53 + 1, 9: 1}, {1: 0.5}]
    for name in WAYS:
        for call in (op, op.csr):
            for batch in (maps, iter(maps)):
                with way(name), pytest.raises(OverflowError, match="map 1: key 1: value"):
                    call(batch)
            with way(name), pytest.raises(KeyError, match="map 1: key 9 "):
                call(maps[:2])


@needs_scipy
@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "csc_array", "coo_array"])
def test_inverse_shares_no_memory_with_a_sparse_matrix(kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    op = DictVectorizer(int64_vocabulary=[5, 6, 7])
    text = DictVectorizer(string_vocabulary=["a", "b", "c"])
    matrix = getattr(sparse, kind)(np.array([[1.0, 0, 2.0], [0, 3.0, 0]]))
    backs = [op.inverse(matrix), text.inverse(matrix)]
    matrix.data[:] = 9
    if hasattr(matrix, "indices"):
        matrix.indices[:] = 0
        matrix.indptr[:] = 0
    assert backs[0].to_dicts() == [{5: 1.0, 7: 2.0}, {6: 3.0}]
    assert backs[1].to_dicts() == [{"a": 1.0, "c": 2.0}, {"b": 3.0}]


def test_the_command_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the main thread may set signal handlers."""
    monkeypatch.chdir(tmp_path)
    Path("maps.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(main(["maps.jsonl", "--dense"])), daemon=True
    )
    thread.start()
    thread.join()
    assert (found, capsys.readouterr().err) == ([0], "")
    assert np.load("maps.npy").tolist() == [[1, 0], [0, 2]]


class Odd(np.ndarray[Any, Any]):
    """An array that writes in a way of its own."""

    def __setitem__(self, at: Any, value: Any) -> None:
        super().__setitem__(at, np.asarray(value) * 0 - 7)


@pytest.mark.parametrize("name", WAYS)
def test_out_is_written_as_an_array(name: str) -> None:
    maps = [{0: 0.5, 1: 1.5}, {1: 2.5, 0: 3.5}]
    ops: list[Any] = [
        CastMap(map_form="SPARSE", max_map=3), CastMap(),
        DictVectorizer(int64_vocabulary=[1, 0, 2]),
        DictVectorizer(int64_vocabulary=[1, 0, 2], fill_value=5.0),
    ]  # fmt: skip
    with way(name):
        for op in ops:
            for given in (maps, maps[0], iter(maps), MapBatch.from_dicts(maps)):
                plain = op(maps[0] if given is maps[0] else maps)
                out = np.zeros(plain.shape, plain.dtype).view(Odd)
                assert op(given, out=out) is out
                assert np.asarray(out).tolist() == plain.tolist()


def test_rows_of_any_width_that_are_none() -> None:
    op = CastMap(map_form="SPARSE", max_map=2**63 - 1)
    cases: list[Any] = [[], [{}], {}]
    for maps in cases:
        with pytest.raises(MemoryError, match=r"CastMap: a result of shape .*; csr\(\) keeps only"):
            op(maps)
    if WITH_SCIPY:
        assert op.csr([]).shape == (0, 2**63 - 1)


class Items(UserDict[Any, Any]):
    """A mapping whose items are what somebody says."""

    def __init__(self, say: Any) -> None:
        super().__init__()
        self.say = say

    def items(self) -> Any:
        return self.say()


class Stopped(RuntimeError):
    """Of a user's own."""


def test_what_items_raises_comes_out_and_what_it_gives_must_be_pairs() -> None:
    op = DictVectorizer(string_vocabulary=["a"])
    own = [RuntimeError("the database is gone"), Stopped("stopped during iteration")]

    def fail(error: Exception) -> Any:
        raise error

    for name in WAYS:
        for error in own:
            mapping = Items(lambda error=error: fail(error))
            for given in (mapping, [mapping], iter([mapping])):
                with way(name), pytest.raises(RuntimeError) as caught:
                    op(given)
                assert caught.value is error
        for pair in ("ab", ["a", 1.0], ("a", 1.0, 2), 7):
            mapping = Items(lambda pair=pair: [pair])
            with way(name), pytest.raises(TypeError, match=r"map 0: items\(\) gave .* not a \("):
                op([mapping])


@pytest.mark.parametrize("key", [-(2**63) - 1, 2**63, -(2**200)])
def test_a_key_on_either_side_of_int64_is_named(key: int) -> None:
    op = DictVectorizer(int64_vocabulary=[1])
    for name in WAYS:
        for given in ([{1: 0.5}, {key: 0.5}], iter([{1: 0.5}, {key: 0.5}])):
            with way(name), pytest.raises(OverflowError, match=r"map 1: key .* does not fit"):
                op(given)


@needs_scipy
def test_a_bad_map_behind_the_first_one_is_not_told() -> None:
    """Whether the int of map 0 is exact only the maps behind tell, of which one is bad."""
    op = DictVectorizer(int64_vocabulary=[1])
    maps: list[dict[int, Any]] = [{1: 2**53 + 1}, {9: 1}, {1: None}]
    for name in WAYS:
        for batch in (maps, iter(maps)):
            with way(name), pytest.raises(KeyError, match="map 1: key 9 "):
                op.csr(batch)


def test_an_error_that_no_map_has_comes_out_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may raise anything at any moment."""
    foreign = ValueError("time is up")

    def ring(*_: Any, **__: Any) -> Any:
        raise foreign

    op = DictVectorizer(int64_vocabulary=[1], dtype="int64")
    monkeypatch.setattr(plain, "exact_one_map", ring)
    with way("plain engine, no shortcuts"), pytest.raises(ValueError, match="time is up") as caught:
        op([1], [2.0], [0, 1])
    assert caught.value is foreign
