"""The trials of a search, in ``study.db``: a study that Optuna's tools can read.

A trial is stored in one transaction when it has ended. Until then it is a lock on its number, which the system releases
when the process ends, however it ends. The settings of a trial follow from the seed, its number and the stored trials:
a trial that was interrupted is repeated with the same settings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dssl.config.registry import Range
from dssl.errors import DsslError, RunError
from dssl.rng import integer
from dssl.runtime import files
from dssl.studies.search_space import Space

if TYPE_CHECKING:
    import optuna

STUDY = "study.db"
_NAME = "dssl"
_NUMBER = "trial"  # attribute: the number that the settings follow from; Optuna's own numbers are in order of the end


@dataclass(frozen=True, slots=True)
class Proposal:
    """The settings of a trial.

    Args:
        number: of the trial, from 0.
        changes: settings of the space, by dotted path.
        trial: the same for Optuna.
        lock: holds the number until it is closed.
    """

    number: int
    changes: dict[str, Any]
    trial: optuna.Trial
    lock: ExitStack


class Trials:
    """The stored trials of a folder, and proposals for the next ones.

    Args:
        folder: where the study is, or will be; a folder of anything else is refused.
        asked: everything that the search depends on, as JSON values.
        varied: the space.
        start: settings of the space that are tried first, if any.
        seed: of the proposals.
        minimize: whether a lower value is better.
    """

    def __init__(
        self,
        folder: Path,
        asked: Mapping[str, Any],
        *,
        varied: Space,
        start: Mapping[str, Any] | None,
        seed: int,
        minimize: bool,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder, self.varied, self.start, self.seed = folder, varied, start, seed
        self.direction: Literal["minimize", "maximize"] = "minimize" if minimize else "maximize"
        self.path = folder / STUDY
        asked = dict(asked) | {"space": {path: _described(part) for path, part in varied.items()}}
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} is a file; choose a folder with --out")
        if not self.path.exists():
            if folder.exists() and not all(entry.name.startswith(".") for entry in folder.iterdir()):
                raise RunError(f"{folder} is not empty and holds no search; choose another folder with --out")
            with _waiting(folder / ".study.lock"):
                if not self.path.exists():
                    self._create(asked)
        with _database(self.path):
            self.study = optuna.load_study(study_name=_NAME, storage=f"sqlite:///{self.path}")
            before = json.loads(self.study.user_attrs["search"])
            different = [name for name, value in before.items() if asked.get(name) != value]
        if different:
            raise RunError(
                f"{folder} holds a search with other {' and '.join(different)}; choose another folder with --out"
            )

    def _create(self, asked: Mapping[str, Any]) -> None:
        import optuna

        with files.replacing(self.path) as temporary, _database(self.path):
            storage = optuna.storages.RDBStorage(f"sqlite:///{temporary}")
            study = optuna.create_study(study_name=_NAME, storage=storage, direction=self.direction)
            study.set_user_attr("search", json.dumps(asked))
            storage.remove_session()
            storage.engine.dispose()

    def done(self) -> list[optuna.trial.FrozenTrial]:
        """The stored trials, those with an error included, by number."""
        with _database(self.path):
            stored = self.study.get_trials(deepcopy=False)
            return sorted((trial for trial in stored if _NUMBER in trial.user_attrs), key=number)

    def complete(self) -> list[optuna.trial.FrozenTrial]:
        """The stored trials that have a value, the best first."""
        sign = 1 if self.direction == "minimize" else -1
        valued = [(trial.value, trial) for trial in self.done() if trial.value is not None]
        return [trial for _, trial in sorted(valued, key=lambda pair: sign * pair[0])]

    @contextmanager
    def proposals(self) -> Iterator[Callable[[int], Proposal | None]]:
        """Give a function that proposes the next trial below a number; locks are released when the block ends."""
        with ExitStack() as held:
            yield partial(self._next, held)

    def _next(self, held: ExitStack, below: int) -> Proposal | None:
        """The first trial below a number that is neither stored nor under way in any process; none if there is none."""
        stored = set(map(number, self.done()))
        for found in sorted(set(range(below)) - stored):
            lock = held.enter_context(ExitStack())
            try:
                lock.enter_context(files.locked(self.folder / f".trial-{found}.lock"))
            except BlockingIOError:
                continue
            done = self.done()
            if found not in map(number, done):
                return self._propose(found, done, lock)
            lock.close()
        return None

    def _propose(self, found: int, done: list[optuna.trial.FrozenTrial], lock: ExitStack) -> Proposal:
        import optuna

        sampler = optuna.samplers.TPESampler(seed=integer(self.seed, "tune", found) % 2**32)
        study = optuna.create_study(direction=self.direction, sampler=sampler)  # in memory
        study.add_trials(done)
        if not found and self.start is not None:
            study.enqueue_trial(dict(self.start))
        trial = study.ask()
        changes: dict[str, Any] = {}
        for path, part in self.varied.items():
            if isinstance(part, Range):
                changes[path] = float(f"{trial.suggest_float(path, part.low, part.high, log=True):.3g}")
            else:
                changes[path] = trial.suggest_categorical(path, part)
        return Proposal(found, changes, trial, lock)

    def add(self, proposal: Proposal, found: Mapping[str, Any]) -> None:
        """Store the result of a trial, or its error, and release its number."""
        import optuna

        failed = "error" in found
        with _database(self.path):
            self.study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE,
                    value=None if failed else found["value"],
                    params=proposal.trial.params,
                    distributions=proposal.trial.distributions,
                    user_attrs={
                        _NUMBER: proposal.number,
                        "changes": proposal.changes,
                        **{name: value for name, value in found.items() if name != "value"},
                    },
                )
            )
        proposal.lock.close()


def number(trial: optuna.trial.FrozenTrial) -> int:
    """The number of a trial, by which its settings were proposed."""
    found: int = trial.user_attrs[_NUMBER]
    return found


def _described(part: tuple[Any, ...] | Range) -> Any:
    return asdict(part) if isinstance(part, Range) else list(part)


@contextmanager
def _waiting(path: Path) -> Iterator[None]:
    """Hold a lock, as soon as it is free."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(files.locked(path))
                break
            except BlockingIOError:
                time.sleep(0.1)
        yield


@contextmanager
def _database(path: Path) -> Iterator[None]:
    """Report a data base that is damaged, or cannot be written to, in one line."""
    try:
        yield
    except (DsslError, OSError):
        raise
    except Exception as error:  # of Optuna, SQLAlchemy or SQLite, by many names
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = " ".join(str(getattr(cause, "orig", cause)).split())[:80]
        raise RunError(
            f"{path} cannot be used ({type(cause).__name__}: {reason}); repair the cause, or use --out"
        ) from None
