"""A broker cluster that is coordinated by ZooKeeper and speaks Apache Kafka's protocol."""

__version__ = "0.1.0"

NAME = "kafkalite"
"""The name of the program in what it says, sends and keeps: of the command and this package too. `deploy/rename` changes it everywhere."""
OWN_SETTINGS = f"{NAME}."
"""What settings begin with that Apache Kafka does not have."""
OWN_VARIABLES = f"{NAME.upper()}_"
"""What variables of the environment begin with."""
