"""Counts the records of each key that a topic has: SERVERS SOURCE TARGET."""

import sys

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

servers, source, target = sys.argv[1:]
flow = Dataflow("count")
records = op.input("records", flow, KafkaSource([servers], [source], tail=False))
counted = op.count_final("counted", records, lambda record: record.key.decode())
written = op.map("written", counted, lambda each: KafkaSinkMessage(each[0].encode(), str(each[1]).encode()))
op.output("output", written, KafkaSink([servers], target))
run_main(flow)
