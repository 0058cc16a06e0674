// Package ibv is RDMA verbs for Go: the counterpart of <infiniband/verbs.h>, without cgo.
//
// It loads libibverbs when the program first needs it. A binary built with CGO_ENABLED=0 therefore runs with
// whatever rdma-core, MLNX_OFED or DOCA the host has, and starts on a host that has none.
//
//	dev, err := ibv.Open("")                             // the first device with an active port
//	pd, err := dev.AllocPD()
//	cq, err := dev.CreateCQ(256, nil)
//	qp, err := pd.CreateQP(cq, cq, nil)                  // RC
//	mr, err := pd.AllocMR(1<<20, ibv.LocalWrite|ibv.RemoteWrite, nil)
//
//	me, err := qp.Endpoint(1, ibv.BestGID)               // what the peer needs to know
//	err = qp.Connect(exchange(me), nil)                  // INIT, RTR, RTS
//
//	b := qp.Batch()
//	b.Write(1, ibv.Signaled, mr.SGE(0, 4096), remote.At(0))
//	err = b.Post()                                       // one doorbell
//	n, err := cq.Wait(ctx, wcs)                          // spins a little, then sleeps
//
// The package example is a whole program.
//
// # Control and data
//
// Control calls, which create, modify and query objects, call libibverbs, or on mlx5 devices send the kernel's commands
// without any library: [ControlPath], [UseControl] and [Device.ControlPath]. Posting and polling use one of two
// engines, and neither allocates:
//
//   - direct: on mlx5 devices this package reads and writes the device's rings itself and calls no C.
//   - ops: on other devices it calls the provider's functions, as C's inline verbs do, once for a batch. A
//     provider's function holds its processor until it returns. That usually takes microseconds; the software
//     devices rxe and siw enter the kernel to post, which may take longer.
//
// [DataPath] names them. [CQ.DataPath] and [QP.DataPath] return which engine an object uses, and why.
//
// # Opening a device
//
//   - [Devices] returns a list of [DeviceInfo]: [NodeType], [TransportType], and the [Location] in the host.
//   - [Open], [OpenIndex], [OpenGUID], [OpenAddr] and [OpenNetdev] return a [Device].
//   - [Unlisted] returns why libibverbs does not list a device of the kernel: [UnlistedDevice].
//   - [ImportDevice] opens a device that another process has opened, [AdoptDevice] one that C code has opened.
//   - [QueryForkStatus] returns a [ForkStatus].
//   - [Unclosed] lists what the program has not closed yet.
//
// # What a device has
//
//   - Device: [Device.QueryDevice] returns [DeviceAttr], with [DeviceAttrEx]. Their parts are [DeviceCapFlags],
//     [AtomicCap], [AtomicSizes], [ODPCaps], [ODPFlags], [ODPOps], [PacketPacingCaps], [QPTypes],
//     [RawPacketCaps], [RSSCaps], [TagMatchingCaps], [TagMatchingFlags] and [TSO]. [Device.QueryRTValues] reads its
//     clock: [RTValues].
//   - Port: [Device.QueryPort] returns [PortAttr], with [PortState], [PhysState], [LinkLayer], [PortCap], [PortCap2],
//     [MTU] and [MTUFromBytes]. [Device.Counters] returns the port counters of the kernel.
//   - GIDs: [Device.GIDTable] returns each [GIDEntry], with its [GID] and [GIDType]. [Device.BestGID] chooses one.
//     [ParseGID] and [GIDFromAddr] make a [GID], [ParseGUID] a [GUID].
//   - Events that are not completions: [Device.AsyncEvent] returns an [AsyncEvent] with its [AsyncEventType].
//
// # Memory
//
//   - [PD] is a protection domain, [MR] registered memory. [PD.AllocMR] allocates outside of the Go heap as
//     [MemOptions] say, with [NUMA], [NUMANode] and [HugePages]. [PD.RegMR] pins a []byte.
//   - [AccessFlags] are the rights. A peer needs [RemoteMemory] and [RemoteAddr] to read and write.
//   - Other registrations: [PD.RegMREx] with [MROptions] and [Dmabuf], [MR.Rereg] with [ReregOptions]. [PD.Advise]
//     takes [Advice] about memory that is paged on demand.
//   - [MW] is a memory window: [MWType], [BindMW], [NextRKey].
//   - [DM] is memory in the device, allocated with [DMOptions].
//   - [Mkey] is an indirect key of mlx5, made by package mlx5dv: [MkeyChange], [MkeyInfo].
//   - [DMAHandle] advises a device about its DMA: [TPHint], [TPHMemory], [TPHSteering].
//
// # Queues
//
//   - [CQ] is created with [CQOptions]; [CQCap] is its size. [CompChannel] has the events of several CQs.
//   - [QP] is created with [QPOptions]: [QPType], [QPCap], [SendOps], [RawOptions].
//   - [SRQ] is a receive queue that QPs share: [SRQOptions], [SRQType], [SRQCap], [SRQAttr].
//   - [XRCD] is a domain of XRC.
//   - [ThreadDomain] gives QPs a doorbell register of their own, without a lock.
//   - [RateLimit] and [InOrder] are options of a QP. [CompCounter] counts completions: [CompCounterCaps],
//     [CompCounterOps], [CompCounterType].
//
// # Connecting
//
//   - [QP.Endpoint] returns an [Endpoint], which travels as text, JSON or 38 bytes. [QP.Connect] takes the
//     peer's, and [ConnectOptions]. Package rdmacm connects by IP address instead.
//   - [QP.Modify] is the single step: [QPState], [QPAttr], [QPAttrMask], [RequiredAttrs], [MigState], [ECE].
//   - Times and rates of attributes: [TimeCode] and [TimeCodeFromDuration], [RNRTimer] and
//     [RNRTimerFromDuration], [Rate] and [RateFromMbps].
//   - Datagrams: [AH] and [AHAttr], [GRH] and [ParseGRH], [FlowLabelUDPSport].
//
// # Posting
//
//   - [QP.Batch] returns a [Batch] of work requests, which is posted with one doorbell.
//   - [QP.PostSend] takes a list of [SendWR]: [Opcode], [SendFlags], [SGE]. [QP.PostRecv] takes a list of [RecvWR].
//   - Operands of some opcodes: [MaskedAtomic], [FlushType], [FlushLevel], [FlushRange].
//   - [SRQ.PostTagOps] changes a list of tags: [TagOp], [TagOpcode].
//
// # Completions
//
//   - [CQ.Poll], [CQ.Wait] and [CQ.Completions] return each [WC]: [WCStatus], [WCOpcode], [WCFlags]. [WC.Err]
//     returns the error of a work request that failed.
//   - [CQ.PollEx] and [CQ.WaitEx] return [WCEx] with the fields of [WCFields]: times, VLAN, [TMInfo].
//   - [QP.Explain] and [QP.LastPosted] read what was posted around a failure: [Posted], [PostedSend],
//     [PostedRecv], [PostedChange], [PostedState].
//
// # Frames
//
// QPs of type RawPacket send and receive Ethernet frames.
//
//   - [QP.CreateFlow] makes a [Flow], a steering rule: [FlowAttr], [FlowType], [FlowFlags], [MAC].
//   - Each [FlowSpec] matches a header: [FlowEth], [FlowEthFields], [FlowIPv4], [FlowIPv4Fields], [FlowIPv6],
//     [FlowIPv6Fields], [FlowTCP], [FlowUDP], [FlowPorts], [FlowVXLAN], [FlowVXLANFields], [FlowGRE],
//     [FlowGREFields], [FlowMPLS], [FlowMPLSFields], [FlowESP], [FlowESPFields].
//   - Other specs act on frames: [FlowTag], [FlowDrop], [FlowCount], [FlowHandle].
//   - [Counters] count frames: [CounterKind]. [FlowAction] is an action of mlx5dv, or an [ESPAction]:
//     [ESPFlags], [ESPKey].
//   - [WQ] is a receive queue behind an RSS QP: [WQOptions], [WQAttr], [WQAttrMask], [WQCap], [WQFlags],
//     [WQState]. [RWQIndTable] and [RSSOptions] distribute frames: [HashFields], [HashFuncs].
//
// # Errors
//
// A failed call returns an [*OpError]. It wraps the errno, a sentinel such as [ErrClosed], or one of these:
//
//   - the arguments: [ArgError], [LimitError], [EndpointError], [StaleEndpointError], [ModifyError],
//     [StateError]
//   - the host: [PermissionError], [CredentialsError], [MemlockError], [CgroupError], [DescriptorError],
//     [DeviceFileError], [UnlistedError], [ProviderError], [UnsupportedError], [PortError], [PathError]
//   - the order of calls: [BusyError]
//   - posting, polling and waiting: [PostError], [CompletionError], [EventError]
//
// Each names the value, the limit and the way out. A work request that failed is a completion, not an error of a
// call: [WC.Err] returns a [*WCError], whose "%+v" also prints what to check. errors.Is(err,
// ibv.WCRetryExcErr.Err()) tests for one status. A [WCStatus] is not an error itself.
//
// # Goroutines
//
// All methods are safe for concurrent use, including Close. Waiting ([CQ.Wait], [Device.AsyncEvent]) sleeps on Go's
// netpoller and holds no thread.
//
// Posting and polling each take one lock, which is normally uncontended. CQs, QPs and SRQs created with
// SingleThreaded, and QPs on a [ThreadDomain], take none: only one goroutine at a time may use them, including
// Close. They may move to another goroutine the way data does, over a channel or under a mutex. Closing a QP
// searches its CQs, so it counts as use of them. The race detector finds violations.
//
// # Lifetime
//
// Every object has an explicit Close, which may be called twice. Close in this order: QPs, MRs, CQs, PDs, the
// device. Closing a parent before its children fails with a [*BusyError] that counts them. Using a closed object
// fails with [ErrClosed]. Close waits for calls that use the object, and leaves it open if the library cannot
// destroy it. Errors name an object by its device and a number, as in "cq of mlx5_0/3". The garbage collector
// never destroys an object, because the device may still write to the memory.
//
// # Other C libraries
//
// The Control methods, such as [QP.Control], lend the C object, such as a struct ibv_qp *, to another library, and
// keep it open meanwhile.
//
// # Environment
//
//	PUREVERBS_LIBRARY_PATH   where to look for the libraries; see package loader
//	PUREVERBS_DATAPATH=ops   gives CQs the engine ops by default
//	PUREVERBS_CCALL=fallback keeps C calls off the g0 stack, to isolate faults
//	PUREVERBS_LEAKS=1        reports objects that were never closed; see [Unclosed]
package ibv
