"""Releases: estimates, error bars, tables and folders, from noisy integers alone."""

from residua.published.table import Table as Table
from residua.release.base import Answered as Answered, Estimate as Estimate, Release as Release
from residua.release.change import change as change
from residua.release.combined import combined as combined
from residua.release.folder import reserve as reserve
from residua.release.given import Given as Given
from residua.release.pooled import pooled as pooled
from residua.release.weighted import Weighted as Weighted, squares_folder as squares_folder, weighted as weighted
