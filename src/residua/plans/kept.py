"""How files keep plans: what every plan states, what its form keeps beside that, and one reading of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from residua.domain import Domain, domain_of_settings
from residua.errors import FileError
from residua.files import MOST_PLAN, read_document, write_document
from residua.folders import DAMAGE
from residua.plans.packing import require_modest
from residua.plans.statements import check_claims, stated_of_body, stated_to_body

KIND, VERSION = "residua plan", 1


class KeptPlan(ABC):
    """A plan that files keep. A form says what it is called there, what is kept of it, and how that is read."""

    kinds: ClassVar[tuple[str, ...]] = ()  # what files call plans of this form
    _forms: ClassVar[dict[str, type[KeptPlan]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for kind in cls.__dict__.get("kinds", ()):
            known = KeptPlan._forms.setdefault(kind, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"two forms of plan are called {kind!r} in files: {known.__name__}, {cls.__name__}")
            KeptPlan._forms[kind] = cls

    @property
    def kind(self) -> str:
        """What files call it."""
        return self.kinds[0]

    @abstractmethod
    def kept(self) -> dict[str, Any]:
        """What files keep of this form beside what they keep of every plan, as plain values."""

    @classmethod
    @abstractmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> Self:
        """The plan that plain values describe; every invariant is checked again.

        Args:
            domain: what the table may hold.
            body: the plain values.
            stated: the fields that every plan has, and the family of sets where there is one.
        """

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {**stated_to_body(self), **self.kept()}

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> Self:
        """The plan that plain values describe; what it claims is checked against its price."""
        domain = domain_of_settings(body["domain"])
        plan = KeptPlan._forms[body["kind"]].of_kept(domain, body, stated_of_body(domain, body))
        check_claims(plan)
        return cast("Self", plan)

    def save(self, path: str | Path) -> None:
        """Writes the plan to a JSON file that `Plan.load` reads, over an older plan but over nothing else."""
        write_document(Path(path), KIND, VERSION, self.to_body(), most=MOST_PLAN)

    @classmethod
    def load(cls, path: str | Path, *, follow: bool = True) -> Self:
        """Reads a saved plan, refusing a file that was changed.

        Args:
            path: the file.
            follow: whether it may be a symbolic link, as where the user named it.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        body = read_document(Path(path), KIND, VERSION, most=MOST_PLAN, follow=follow)
        try:
            require_modest(body, Path(path).stat().st_size)
            return cls.of_body(body)
        except DAMAGE as problem:
            raise FileError(f"{str(path)!r} does not hold a valid plan ({problem}); plan again.") from None
