"""What processes and caches must survive: kills, forks, ends under a compiler, damaged files."""
