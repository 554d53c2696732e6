"""The public names, each written here and nowhere else: type checkers read this file, and so does `__init__.py`.

A name that is marked provisional may change in a minor version; all others change in a major version only, and after a
version that warned (docs/stability.md).
"""

from residua import analysis as analysis  # provisional
from residua.domain import Amount as Amount
from residua.domain import Anonymous as Anonymous
from residua.domain import Bins as Bins
from residua.domain import Categories as Categories
from residua.domain import CodeList as CodeList
from residua.domain import Dates as Dates
from residua.domain import Domain as Domain
from residua.domain import Integers as Integers
from residua.domain import between as between
from residua.errors import GapWarning as GapWarning
from residua.errors import ResiduaError as ResiduaError
from residua.estimation import Estimated as Estimated  # provisional
from residua.estimation import estimate as estimate  # provisional
from residua.estimation import plan_estimates as plan_estimates  # provisional
from residua.measurement import Continual as Continual  # provisional
from residua.measurement import Discovery as Discovery
from residua.measurement import Ledger as Ledger
from residua.measurement import RecordsPerPerson as RecordsPerPerson
from residua.measurement import allot as allot
from residua.measurement import discover as discover
from residua.measurement import measure as measure
from residua.measurement import measure_survey as measure_survey
from residua.measurement import records_per_person as records_per_person
from residua.measurement import score as score  # provisional
from residua.plans import Axis as Axis  # provisional
from residua.plans import Blockwise as Blockwise  # provisional
from residua.plans import ConvexLoss as ConvexLoss
from residua.plans import LargestVariances as LargestVariances
from residua.plans import Lattice as Lattice  # provisional
from residua.plans import Matrix as Matrix  # provisional
from residua.plans import MaxVariance as MaxVariance
from residua.plans import Plan as Plan
from residua.plans import PNormVariance as PNormVariance
from residua.plans import Stakeholders as Stakeholders
from residua.plans import TotalVariance as TotalVariance
from residua.plans import Tree as Tree  # provisional
from residua.plans import by_group as by_group
from residua.plans import clips as clips
from residua.plans import common as common
from residua.plans import independent as independent
from residua.plans import plan as plan
from residua.plans import residual as residual
from residua.plans import top_up as top_up
from residua.privacy import GDP as GDP
from residua.privacy import ZCDP as ZCDP
from residua.privacy import AddRemove as AddRemove
from residua.privacy import ApproxDP as ApproxDP
from residua.privacy import Person as Person
from residua.privacy import PureDP as PureDP
from residua.privacy import ReplaceOne as ReplaceOne
from residua.projection import Projected as Projected
from residua.projection import for_mbi as for_mbi  # provisional
from residua.projection import project as project
from residua.release import Given as Given
from residua.release import Release as Release
from residua.release import Table as Table
from residua.release import change as change
from residua.release import combined as combined
from residua.release import pooled as pooled
from residua.release import weighted as weighted  # provisional
from residua.session import Session as Session
from residua.source import Source as Source
from residua.source import Weights as Weights  # provisional
from residua.workload import explicit as explicit
from residua.workload import hierarchy as hierarchy
from residua.workload import marginals as marginals
from residua.workload import prefixes as prefixes
from residua.workload import product as product
from residua.workload import queries as queries
from residua.workload import ranges as ranges

__version__: str
__all__: list[str]
