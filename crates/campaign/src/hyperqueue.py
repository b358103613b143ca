#!/usr/bin/env python3
"""Runs a campaign's shards with HyperQueue and its Python package: pip install hyperqueue.

  submit-to-hyperqueue.py                 on the workers of a server (hq server start, hq worker start)
  submit-to-hyperqueue.py --shards 3,7-9  only these shards
  submit-to-hyperqueue.py --local 8       on 8 CPUs of this machine, with a server of its own
"""
import argparse
import sys

try:
    from hyperqueue import Client, Job
    from hyperqueue.cluster import LocalCluster, WorkerConfig
except ImportError:
    sys.exit("HyperQueue's Python package is missing: pip install hyperqueue")

COMMAND = @COMMAND@
LOG = @LOG@
SHARDS = @SHARDS@


def numbers(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def run(client, shards):
    job = Job()
    for shard in shards:
        log = f"{LOG}/hyperqueue-{shard}.txt"
        job.program([*COMMAND, str(shard)], name=f"shard-{shard}", stdout=log, stderr=log)
    return client.wait_for_jobs([client.submit(job)], raise_on_error=False)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--shards", type=lambda text: list(numbers(text)), default=list(range(1, SHARDS + 1)))
parser.add_argument("--local", type=int, metavar="CPUS")
args = parser.parse_args()
wrong = [shard for shard in args.shards if not 1 <= shard <= SHARDS]
if wrong:
    parser.error(f"shard {wrong[0]}: there are 1 to {SHARDS}")
if args.local:
    with LocalCluster(worker_config=WorkerConfig(cores=args.local)) as cluster:
        succeeded = run(cluster.client(), args.shards)
else:
    succeeded = run(Client(), args.shards)
if not succeeded:
    sys.exit(f"some shards failed: see {LOG}")
