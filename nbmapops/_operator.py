"""Operator: what CastMap and DictVectorizer share: identity, attributes, and reading the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from nbmapops._engine import run
from nbmapops._options import check_sparse, check_threads
from nbmapops._reading.inputs import Input, read_input
from nbmapops._reading.scalars import DTYPES, type_name

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from nbmapops._engine.choose import Part
    from nbmapops._options import Plan
    from nbmapops._types import Dtype, Options, Semantics


class Operator:
    """An immutable operator: attributes, and a plan for each kind of key that it takes."""

    __slots__ = ("_attributes", "_plans")

    _name: ClassVar[str]
    _attributes: dict[str, Any]  # in the order of the parameters
    _plans: dict[str, Plan]

    def _read(
        self, maps: object, values: object, offsets: object, part: Part, *, skip_large: bool = True
    ) -> tuple[Plan, Input]:
        """Read what the operator was called with, and choose the plan for its kind of key.

        Without `skip_large` a key beyond int64 is an error, whatever unknown keys are.
        """
        plans = self._plans
        if len(plans) == 1:
            ((kind, plan),) = plans.items()
            given = read_input(
                self._name, maps, values, offsets, kind, (part,),
                skip_large=skip_large and plan.skip_large,
            )  # fmt: skip
            return plan, given
        skip_large = skip_large and plans["int64"].skip_large
        given = read_input(self._name, maps, values, offsets, None, (part,), skip_large=skip_large)
        entries, bad = given.read_all()
        return plans[entries.keys.kind], Input(entries, given.one, bad)

    def _csr(
        self, maps: object, values: object, offsets: object, index_dtype: type | None, threads: int
    ) -> csr_array:
        plan, given = self._read(maps, values, offsets, "csr")
        return run.csr(plan, given, index_dtype, threads)

    def _check_sparse(self, index_dtype: object, threads: int) -> type | None:
        check_threads(self._name, threads)
        dtype: type | None = check_sparse(next(iter(self._plans.values())), index_dtype)
        return dtype

    # ------------------------------------------------------------------------- attributes
    @property
    def fill_value(self) -> float | int | str | None:
        """What stands at positions without an entry; None: 0, or the text of the semantics."""
        fill: float | int | str | None = self._attributes["fill_value"]
        return fill

    @property
    def semantics(self) -> Semantics:
        """The mode: "strict" or "onnxruntime"."""
        semantics: Semantics = self._attributes["semantics"]
        return semantics

    @property
    def _plan(self) -> Plan:
        return next(iter(self._plans.values()))

    def result_type(self, value_type: Dtype | None = None) -> np.dtype[np.generic]:
        """Return the dtype of the result for values of a type.

        Parameters
        ----------
        value_type : {"float", "double", "int64", "string"} or dtype, optional
            The type of the values; not needed where the operator fixes the type of the result.

        Returns
        -------
        numpy.dtype
            float32, float64, int64, or object for text.

        Raises
        ------
        TypeError
            Another type; no type, where the operator leaves that of the values as it is.

        Examples
        --------
        >>> import nbmapops
        >>> nbmapops.CastMap(cast_to="TO_INT64").result_type()
        dtype('int64')
        >>> nbmapops.DictVectorizer(string_vocabulary=["a"]).result_type("float")
        dtype('float32')
        """
        target = next(iter(self._plans.values())).target
        if value_type is None and target is not None:
            return DTYPES[target]
        return DTYPES[target or type_name(value_type, f"{self._name}: value_type")]

    def replace(self, **options: Unpack[Options]) -> Self:
        """Return a copy with other options.

        Parameters
        ----------
        **options
            Parameters of the class and their new values.

        Returns
        -------
        CastMap or DictVectorizer

        Raises
        ------
        TypeError, ValueError, OverflowError
            As when the class is called.

        Examples
        --------
        >>> import nbmapops
        >>> nbmapops.CastMap(map_form="SPARSE", max_map=4).replace(max_map=9)
        CastMap(map_form='SPARSE', max_map=9)
        """
        return type(self)(**{**self._words(), **self._attributes, **options})

    def _words(self) -> dict[str, Any]:
        """Return the vocabularies, as parameters."""
        return {}

    # ------------------------------------------------------------------------- identity
    def _key(self) -> tuple[object, ...]:
        """Return what equal operators share: NaN equals NaN, and -0.0 does not equal 0 or 0.0."""
        fill = self._attributes["fill_value"]
        vocabularies = [plan.vocabulary for plan in self._plans.values()]
        return (*{**self._attributes, "fill_value": repr(fill)}.values(), *vocabularies)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
