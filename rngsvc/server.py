"""gRPC: messages in, the service's records through, messages out. `gate.py` stands before every method."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from rngsvc import wire
from rngsvc.errors import (
    InvalidField,
    ServiceError,
)
from rngsvc.gate import BeginCall, Context, Gate, caller, to_status
from rngsvc.log import Log, Logged
from rngsvc.metrics import Metrics
from rngsvc.ports import Store
from rngsvc.protocol.commitment import MAX_ITEMS, MAX_SEQ
from rngsvc.protocol.derivation import MAX_MODULUS
from rngsvc.results import AuditVerdict, BatteryVerdict, Results
from rngsvc.sampling import Sampler, SampleRequest, Totals
from rngsvc.service import Service
from rngsvc.v1 import audit_pb2, audit_pb2_grpc, log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc

_MAX_PAGE: Final = 1000
_STREAM_ENTRIES: Final = 256
_STREAM_BYTES: Final = 1 << 20
_VERDICTS: Final = {
    audit_pb2.VERDICT_PASS: "pass",
    audit_pb2.VERDICT_FAIL: "fail",
    audit_pb2.VERDICT_UNDECIDED: "undecided",
}

Item = TypeVar("Item")


# --- Services ---


class ShuffleServicer(shuffle_pb2_grpc.ShuffleServiceServicer):
    """`rngsvc.v1.ShuffleService`."""

    def __init__(self, service: Service, default_ttl_s: int) -> None:
        self._service = service
        self._default_ttl_s = default_ttl_s

    async def RegisterTable(  # noqa: D102, N802
        self, request: shuffle_pb2.RegisterTableRequest, _context: Context
    ) -> shuffle_pb2.RegisterTableResponse:
        logged = await self._service.register(caller.get(), wire.register_table(request, self._default_ttl_s))
        return shuffle_pb2.RegisterTableResponse(logged=wire.logged_entry(logged))

    async def ReserveHands(  # noqa: D102, N802
        self, request: shuffle_pb2.ReserveHandsRequest, _context: Context
    ) -> shuffle_pb2.ReserveHandsResponse:
        call = wire.reserve_hands(request.table, request.first_seq, request.count)
        logged = _only(await self._service.reserve(caller.get(), [call]))
        return shuffle_pb2.ReserveHandsResponse(logged=wire.logged_entry(logged))

    async def PromiseSeeds(  # noqa: D102, N802
        self, request: shuffle_pb2.PromiseSeedsRequest, _context: Context
    ) -> shuffle_pb2.PromiseSeedsResponse:
        logged = await self._service.promise(caller.get(), wire.promise_seeds(request))
        return shuffle_pb2.PromiseSeedsResponse(logged=wire.logged_entry(logged))

    async def SealShuffle(  # noqa: D102, N802
        self, request: shuffle_pb2.SealShuffleRequest, _context: Context
    ) -> shuffle_pb2.SealShuffleResponse:
        call = wire.seal_shuffle(request.table, request.seq, request.item_count, request.contributions)
        shuffled = _only(await self._service.seal(caller.get(), [call]))
        return shuffle_pb2.SealShuffleResponse(
            logged=wire.logged_entry(shuffled.logged),
            leaves=b"".join(shuffled.leaves),
            contribution_leaves=b"".join(shuffled.contribution_leaves),
            openings=wire.openings(shuffled.openings),
        )

    async def ChooseTwin(  # noqa: D102, N802
        self, request: shuffle_pb2.ChooseTwinRequest, _context: Context
    ) -> shuffle_pb2.ChooseTwinResponse:
        call = wire.choose_twin(request.table, request.seq, request.choices)
        shuffled = _only(await self._service.choose(caller.get(), [call]))
        return shuffle_pb2.ChooseTwinResponse(
            logged=wire.logged_entry(shuffled.logged),
            leaves=b"".join(shuffled.leaves),
            openings=wire.openings(shuffled.openings),
        )

    async def Reshuffle(  # noqa: D102, N802
        self, request: shuffle_pb2.ReshuffleRequest, _context: Context
    ) -> shuffle_pb2.ReshuffleResponse:
        shuffled = await self._service.reshuffle(caller.get(), wire.reshuffle(request))
        return shuffle_pb2.ReshuffleResponse(
            logged=wire.logged_entry(shuffled.logged),
            leaves=b"".join(shuffled.leaves),
            openings=wire.openings(shuffled.openings),
        )

    async def OpenCards(  # noqa: D102, N802
        self, request: shuffle_pb2.OpenCardsRequest, _context: Context
    ) -> shuffle_pb2.OpenCardsResponse:
        call = wire.open_cards(request.table, request.seq, request.k, request.places)
        opened = _only(await self._service.open(caller.get(), [call]))
        return shuffle_pb2.OpenCardsResponse(openings=wire.openings(opened))

    async def CloseHand(  # noqa: D102, N802
        self, request: shuffle_pb2.CloseHandRequest, _context: Context
    ) -> shuffle_pb2.CloseHandResponse:
        call = wire.close_hand(request.table, request.seq, request.outcome, request.reason)
        logged = _only(await self._service.close(caller.get(), [call]))
        return shuffle_pb2.CloseHandResponse(logged=wire.logged_entry(logged))

    async def DrawNumbers(  # noqa: D102, N802
        self, request: shuffle_pb2.DrawNumbersRequest, _context: Context
    ) -> shuffle_pb2.DrawNumbersResponse:
        numbers = await self._service.draw(caller.get(), wire.draw_numbers(request))
        return shuffle_pb2.DrawNumbersResponse(
            logged=wire.logged_entry(numbers.logged),
            values=numbers.values,
            contribution_leaves=b"".join(numbers.contribution_leaves),
        )

    async def GetHand(  # noqa: D102, N802
        self, request: shuffle_pb2.GetHandRequest, _context: Context
    ) -> shuffle_pb2.GetHandResponse:
        table, seq = wire.table_id(request.table), wire.seq_number(request.seq)
        view = await self._service.hand(caller.get(), table, seq)
        opened: dict[int, list[int]] = {}
        for k, place in sorted(view.hand.opened):
            opened.setdefault(k, []).append(place)
        return shuffle_pb2.GetHandResponse(
            state=wire.STATES[view.hand.state],
            entries=map(wire.logged_entry, view.entries),
            opened=[shuffle_pb2.Openings(k=k, places=places) for k, places in opened.items()],
            expires_ms=view.expires_ms,
        )

    async def ListHands(  # noqa: D102, N802
        self, request: shuffle_pb2.ListHandsRequest, _context: Context
    ) -> shuffle_pb2.ListHandsResponse:
        limit = wire.within("page_size", request.page_size or 100, 1, _MAX_PAGE)
        table, wanted = wire.table_id(request.table), request.state
        if wanted and wanted not in wire.STATES.values():
            raise InvalidField("state", "a HandState")
        steps = await self._service.hands(caller.get(), table, min(request.after_seq, MAX_SEQ), limit)
        hands = [
            shuffle_pb2.HandSummary(
                seq=step.seq, state=wire.STATES[wire.STATE_AFTER[step.kind]], last_index=step.position or 0
            )
            for step in steps
        ]
        return shuffle_pb2.ListHandsResponse(
            hands=[hand for hand in hands if not wanted or hand.state == wanted],
            next_after_seq=steps[-1].seq if len(steps) == limit else 0,
        )

    async def BatchReserveHands(  # noqa: D102, N802
        self, request: shuffle_pb2.BatchReserveHandsRequest, _context: Context
    ) -> shuffle_pb2.BatchReserveHandsResponse:
        tables = wire.batch_tables(request.tables, {"first_seqs": request.first_seqs})
        calls = [
            wire.reserve_hands(table, first, request.count)
            for table, first in zip(tables, request.first_seqs, strict=True)
        ]
        logged, failures = _sorted_out(await self._service.reserve(caller.get(), calls))
        return shuffle_pb2.BatchReserveHandsResponse(logged=wire.batch_entries(logged), failures=failures)

    async def BatchSealShuffle(  # noqa: D102, N802
        self, request: shuffle_pb2.BatchSealShuffleRequest, _context: Context
    ) -> shuffle_pb2.BatchSealShuffleResponse:
        given: Sequence[Sequence[shuffle_pb2.Contribution]] = [each.contributions for each in request.contributions]
        columns: dict[str, Sequence[object]] = {"seqs": request.seqs}
        if given:
            columns["contributions"] = given
        tables = wire.batch_tables(request.tables, columns)
        calls = [
            wire.seal_shuffle(table, seq, request.item_count, contributions)
            for table, seq, contributions in zip(tables, request.seqs, given or [()] * len(tables), strict=True)
        ]
        shuffled, failures = _sorted_out(await self._service.seal(caller.get(), calls))
        return shuffle_pb2.BatchSealShuffleResponse(
            logged=wire.batch_entries([each.logged for each in shuffled]),
            leaves=b"".join([b"".join(each.leaves) for each in shuffled]),
            contribution_leaves=[b"".join(each.contribution_leaves) for each in shuffled],
            openings=[opened for each in shuffled if (opened := wire.openings(each.openings))],
            failures=failures,
        )

    async def BatchChooseTwin(  # noqa: D102, N802
        self, request: shuffle_pb2.BatchChooseTwinRequest, _context: Context
    ) -> shuffle_pb2.BatchChooseTwinResponse:
        given: Sequence[Sequence[shuffle_pb2.Choice]] = [each.choices for each in request.choices]
        columns: dict[str, Sequence[object]] = {"seqs": request.seqs}
        if given:
            columns["choices"] = given
        tables = wire.batch_tables(request.tables, columns)
        calls = [
            wire.choose_twin(table, seq, choices)
            for table, seq, choices in zip(tables, request.seqs, given or [()] * len(tables), strict=True)
        ]
        shuffled, failures = _sorted_out(await self._service.choose(caller.get(), calls))
        return shuffle_pb2.BatchChooseTwinResponse(
            logged=wire.batch_entries([each.logged for each in shuffled]),
            leaves=[b"".join(each.leaves) for each in shuffled],
            openings=[opened for each in shuffled if (opened := wire.openings(each.openings))],
            failures=failures,
        )

    async def BatchOpenCards(  # noqa: D102, N802
        self, request: shuffle_pb2.BatchOpenCardsRequest, _context: Context
    ) -> shuffle_pb2.BatchOpenCardsResponse:
        columns = {"seqs": request.seqs, "ks": request.ks, "place_counts": request.place_counts}
        tables = wire.batch_tables(request.tables, columns)
        if sum(request.place_counts) != len(request.places):
            raise InvalidField("places", "as many as place_counts say together")
        calls, start = [], 0
        for table, seq, k, count in zip(tables, request.seqs, request.ks, request.place_counts, strict=True):
            calls.append(wire.open_cards(table, seq, k, request.places[start : start + count]))
            start += count
        opened, failures = _sorted_out(await self._service.open(caller.get(), calls))
        return shuffle_pb2.BatchOpenCardsResponse(
            items=[item for each in opened for item in each.items],
            salts=b"".join(each.salts for each in opened),
            failures=failures,
        )

    async def BatchCloseHand(  # noqa: D102, N802
        self, request: shuffle_pb2.BatchCloseHandRequest, _context: Context
    ) -> shuffle_pb2.BatchCloseHandResponse:
        tables = wire.batch_tables(request.tables, {"seqs": request.seqs})
        calls = [
            wire.close_hand(table, seq, request.outcome, request.reason)
            for table, seq in zip(tables, request.seqs, strict=True)
        ]
        logged, failures = _sorted_out(await self._service.close(caller.get(), calls))
        return shuffle_pb2.BatchCloseHandResponse(logged=wire.batch_entries(logged), failures=failures)


class LogServicer(log_pb2_grpc.LogServiceServicer):
    """`rngsvc.v1.LogService`."""

    def __init__(self, log: Log, store: Store, cosigned: Callable[[], str]) -> None:
        self._log = log
        self._store = store
        self._cosigned = cosigned

    async def GetCheckpoint(  # noqa: D102, N802
        self, _request: log_pb2.GetCheckpointRequest, _context: Context
    ) -> log_pb2.GetCheckpointResponse:
        head = self._log.head
        assert head, "a running service has logged its start"
        return log_pb2.GetCheckpointResponse(
            checkpoint=head.checkpoint.decode(),
            cosigned_checkpoint=self._cosigned(),
            key_entries=map(wire.logged_entry, await self._log.key_entries(head)),
        )

    async def GetProof(  # noqa: D102, N802
        self, request: log_pb2.GetProofRequest, _context: Context
    ) -> log_pb2.GetProofResponse:
        if not request.tree_size:
            return log_pb2.GetProofResponse(logged=wire.logged_entry(await self._log.logged(request.index)))
        size = wire.within("tree_size", request.tree_size, request.index + 1, self._log.size)
        proof = await self._log.inclusion(request.index, size)
        (entry,) = await self._store.entries(request.index, request.index + 1)
        return log_pb2.GetProofResponse(logged=wire.logged_entry(Logged(request.index, entry, tuple(proof), b"")))

    async def GetConsistencyProof(  # noqa: D102, N802
        self, request: log_pb2.GetConsistencyProofRequest, _context: Context
    ) -> log_pb2.GetConsistencyProofResponse:
        size, checkpoint = self._log.size, self._checkpoint()
        new = wire.within("new_size", request.new_size, 1, size) if request.new_size else size
        old = wire.within("old_size", request.old_size, 0, new)
        proof = await self._log.consistency(old, new)
        return log_pb2.GetConsistencyProofResponse(proof=b"".join(proof), checkpoint=checkpoint if new == size else "")

    async def StreamEntries(  # noqa: D102, N802
        self, request: log_pb2.StreamEntriesRequest, _context: Context
    ) -> AsyncIterator[log_pb2.StreamEntriesResponse]:
        if request.follow and request.end:
            raise InvalidField("end", "0 when follow is set")
        at = wire.within("first", request.first, 0, self._log.size)
        end = wire.within("end", request.end, at, self._log.size) if request.end else self._log.size
        while True:
            while at < end:
                # The checkpoint is read after the entries' end was fixed, so its tree contains them.
                checkpoint = self._checkpoint()
                entries = _up_to(await self._store.entries(at, min(end, at + _STREAM_ENTRIES)), _STREAM_BYTES)
                yield log_pb2.StreamEntriesResponse(first=at, entries=entries, checkpoint=checkpoint)
                at += len(entries)
            if not request.follow:
                return
            while end == self._log.size:
                await self._log.grown()
            end = self._log.size

    def _checkpoint(self) -> str:
        assert self._log.head, "a running service has logged its start"
        return self._log.head.checkpoint.decode()


class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """`rngsvc.v1.AuditService`."""

    def __init__(self, service: Service, sampler: Sampler, results: Results, reseeds: Callable[[], int]) -> None:
        self._service = service
        self._sampler = sampler
        self._results = results
        self._reseeds = reseeds

    async def Sample(  # noqa: D102, N802
        self, request: audit_pb2.SampleRequest, _context: Context
    ) -> AsyncIterator[audit_pb2.SampleResponse]:
        wanted = _sample_request(request)
        reseeds = self._reseeds()
        logged = await self._sampler.begin(wanted)
        yield audit_pb2.SampleResponse(start=audit_pb2.SampleStart(logged=wire.logged_entry(logged)))
        totals = Totals()
        async for chunk in self._sampler.chunks(wanted, totals):
            yield audit_pb2.SampleResponse(chunk=chunk)
        await self._sampler.end(logged, wanted, totals)
        end = audit_pb2.SampleEnd(
            byte_count=totals.bytes,
            item_count=totals.items,
            words_read=totals.words_read,
            words_refused=totals.words_refused,
            reseeds=self._reseeds() - reseeds,
            sha256=totals.digest.digest(),
            code_manifest=self._results.code,
            checkpoint=logged.checkpoint.decode(),
        )
        yield audit_pb2.SampleResponse(end=end)

    async def OpenHand(  # noqa: D102, N802
        self, request: audit_pb2.OpenHandRequest, _context: Context
    ) -> audit_pb2.OpenHandResponse:
        opened = await self._service.opened_hand(wire.table_id(request.table), wire.seq_number(request.seq))
        return audit_pb2.OpenHandResponse(
            entries=map(wire.logged_entry, opened.entries),
            contributed_seeds=opened.seeds,
            shuffles=[audit_pb2.ShuffleLeaves(k=k, leaves=b"".join(each)) for k, each in enumerate(opened.leaves)],
            escrow=opened.escrow,
            seed=opened.seed,
        )

    async def RecordResult(  # noqa: D102, N802
        self, request: audit_pb2.RecordResultRequest, _context: Context
    ) -> audit_pb2.RecordResultResponse:
        match request.WhichOneof("result"):
            case "audit":
                answer = await self._results.audit(_audit_verdict(request.audit))
            case "integrity":
                answer = await self._results.battery(_battery_verdict(request.integrity))
            case _:
                raise InvalidField("result", "audit or integrity")
        if isinstance(answer, bytes):
            return audit_pb2.RecordResultResponse(to_sign=answer)
        return audit_pb2.RecordResultResponse(logged=wire.logged_entry(answer))

    async def ListResults(  # noqa: D102, N802
        self, request: audit_pb2.ListResultsRequest, _context: Context
    ) -> audit_pb2.ListResultsResponse:
        limit = wire.within("page_size", request.page_size or 100, 1, _MAX_PAGE)
        newest = await self._results.newest(request.before_index, limit)
        return audit_pb2.ListResultsResponse(results=map(wire.logged_entry, newest))


def _sample_request(request: audit_pb2.SampleRequest) -> SampleRequest:
    sample_id = wire.length("sample_id", request.sample_id, 16)
    match request.WhichOneof("kind"):
        case "bits":
            return SampleRequest(sample_id, "bits", wire.within("bits.byte_count", request.bits.byte_count, 1, 2**40))
        case "numbers":
            numbers = request.numbers
            count = wire.within("numbers.count", numbers.count, 1, 2**37)
            modulus = wire.within("numbers.modulus", numbers.modulus, 1, MAX_MODULUS)
            return SampleRequest(sample_id, "numbers", count, modulus=modulus)
        case "shuffles":
            shuffles = request.shuffles
            count = wire.within("shuffles.count", shuffles.count, 1, 2**32)
            n = wire.within("shuffles.item_count", shuffles.item_count, 1, MAX_ITEMS)
            return SampleRequest(sample_id, "shuffles", count, n=n)
        case _:
            raise InvalidField("kind", "bits, numbers or shuffles")


def _audit_verdict(audit: audit_pb2.AuditResult) -> AuditVerdict:
    return AuditVerdict(
        audit.first_index,
        wire.within("audit.last_index", audit.last_index, audit.first_index, 2**53 - 1),
        wire.length("audit.result_sha256", audit.result_sha256, 32),
        wire.one_of("audit.verdict", audit.verdict, _VERDICTS),
        wire.length("audit.signer", audit.signer, 32),
        wire.within("audit.time_ms", audit.time_ms, 0, 2**53 - 1),
        wire.length("audit.signature", audit.signature, 64) if audit.signature else b"",
    )


def _battery_verdict(integrity: audit_pb2.IntegrityResult) -> BatteryVerdict:
    return BatteryVerdict(
        wire.length("integrity.sample_id", integrity.sample_id, 16),
        wire.length("integrity.sample_sha256", integrity.sample_sha256, 32),
        wire.length("integrity.report", integrity.report, 1, 1 << 20),
        wire.one_of("integrity.verdict", integrity.verdict, _VERDICTS),
    )


def _only(answers: "list[Item | ServiceError]") -> Item:
    (answer,) = answers
    if isinstance(answer, ServiceError):
        raise answer
    return answer


def _sorted_out(answers: "list[Item | ServiceError]") -> tuple[list[Item], list[shuffle_pb2.BatchFailure]]:
    done: list[Item] = []
    failures = []
    for position, answer in enumerate(answers):
        if isinstance(answer, ServiceError):
            status = to_status(answer)
            failures.append(
                shuffle_pb2.BatchFailure(
                    position=position, code=status.code, reason=answer.reason, message=answer.message
                )
            )
        else:
            done.append(answer)
    return done, failures


def _up_to(entries: list[bytes], limit: int) -> list[bytes]:
    """Return as many leading entries as fit into ``limit`` bytes, at least one."""
    total = 0
    for i, entry in enumerate(entries):
        total += len(entry)
        if i and total > limit:
            return entries[:i]
    return entries


# --- The server ---


def build(
    *,
    service: Service,
    log: Log,
    store: Store,
    sampler: Sampler,
    results: Results,
    metrics: Metrics,
    reseeds: Callable[[], int],
    cosigned: Callable[[], str],
    has_tls: bool,
    default_ttl_s: int,
    default_deadline_s: float,
    max_message_bytes: int,
    max_concurrent: int,
    begin_call: BeginCall | None = None,
) -> tuple[grpc.aio.Server, health.aio.HealthServicer]:
    """Return the server, without a port yet, and its health service."""
    server = grpc.aio.server(
        # The gate counts calls itself: gRPC's own limit refuses without saying when to come back.
        interceptors=[
            Gate(
                metrics,
                has_tls=has_tls,
                default_deadline_s=default_deadline_s,
                most_calls=max_concurrent,
                begin_call=begin_call,
            )
        ],
        options=[
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            # Clients may ping every 20 s; dead ones are noticed within 40 s.
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ],
    )
    shuffle_pb2_grpc.add_ShuffleServiceServicer_to_server(ShuffleServicer(service, default_ttl_s), server)
    log_pb2_grpc.add_LogServiceServicer_to_server(LogServicer(log, store, cosigned), server)
    audit_pb2_grpc.add_AuditServiceServicer_to_server(AuditServicer(service, sampler, results, reseeds), server)
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    names = [
        *(file.DESCRIPTOR.services_by_name[name].full_name for file, name in _SERVICES),
        health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
    ]
    _add_reflection(names, server)
    return server, healthy


_SERVICES: Final = ((shuffle_pb2, "ShuffleService"), (log_pb2, "LogService"), (audit_pb2, "AuditService"))


def _add_reflection(names: list[str], server: grpc.aio.Server) -> None:
    """Register reflection as v1alpha, which grpcio knows, and the same methods as v1, which newer tools ask for."""
    reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)
    servicer = reflection.aio.ReflectionServicer(service_names=[*names, reflection.SERVICE_NAME])
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    v1 = grpc.method_handlers_generic_handler("grpc.reflection.v1.ServerReflection", {"ServerReflectionInfo": handler})
    server.add_generic_rpc_handlers((v1,))


async def set_health(healthy: health.aio.HealthServicer, *, serving: bool) -> None:
    """Tell health checks, for the whole server and each service, whether it can sign."""
    status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in ("", *(file.DESCRIPTOR.services_by_name[name].full_name for file, name in _SERVICES)):
        await healthy.set(name, status)
