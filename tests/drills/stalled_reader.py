"""`stalled_reader.py ADDRESS STREAMS`: begins so many streams, says so, and is then stopped by who started it."""

import sys
import time
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).parents[2]))
from rngsvc.v1 import audit_pb2, audit_pb2_grpc, log_pb2, log_pb2_grpc


def main() -> None:
    channel = grpc.insecure_channel(sys.argv[1])
    log, audit = log_pb2_grpc.LogServiceStub(channel), audit_pb2_grpc.AuditServiceStub(channel)
    streams = []
    for number in range(int(sys.argv[2])):
        if number % 2:
            wanted = audit_pb2.SampleRequest(
                sample_id=number.to_bytes(16), bits=audit_pb2.BitsSample(byte_count=1 << 30)
            )
            streams.append(audit.Sample(wanted))
        else:
            streams.append(log.StreamEntries(log_pb2.StreamEntriesRequest(follow=True)))
    next(streams[0])
    print(len(streams), flush=True)
    time.sleep(3600)


main()
