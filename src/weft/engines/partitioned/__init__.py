"""Evaluation of users in partitions, shared by Ray and Spark."""
