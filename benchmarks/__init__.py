"""Measurements. Speed is shown as figures beside a unit of the same run, fairness as seats beside the fair ones."""
