"""An evaluation whose users are split into partitions, the same for Ray and Spark."""
