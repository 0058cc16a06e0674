// Package mlx5dv is libmlx5's mlx5dv API for objects of package ibv: what only mlx5 devices (ConnectX, BlueField) have.
//
// It is not needed for speed: on these devices package ibv posts and polls without libmlx5.
//
//	attr, err := mlx5dv.QueryDevice(dev)
//	cq, err := mlx5dv.CreateCQ(dev, 256, &mlx5dv.CQOptions{EntrySize: 128}) // an ibv.CQ
//	qp, err := mlx5dv.CreateQP(pd, cq, cq, nil)                             // an ibv.QP
//
// The objects that this package creates are objects of ibv, or belong to one. Data moves through ibv.
//
// # Devices
//
//   - [IsSupported] reports whether a device is of mlx5. [QueryDevice] returns [DeviceAttr]: [Features],
//     [DeviceFlags], [CQECompression], [CQEFormats], [SWParsingCaps], [SWParsing], [StridingRQ], [TunnelOffloads],
//     [FlowActions], [Signature], [SigProtections], [T10DIFGuards], [CRCs], [BlockSizes], [DCIStreams], [Crypto],
//     [CryptoEngines], [CryptoImports], [CryptoFlags], [Register], [OOORecv].
//   - [ReadClock] returns a [Clock], which converts the times of completions.
//   - [SetAllocators] and [Allocators]: memory for rings. [DataDirectPath] and [RegDmabuf]: data direct.
//   - [AllocDM] with [DMOptions] and [DMType], [MapDMOp]: memory of the device.
//
// # Queues
//
//   - [CreateCQ] with [CQOptions]: padding, 128-byte and compressed completions.
//   - [CreateQP] with [QPOptions]: [QPCreateFlags], [DriverOps].
//   - [CreateWQ] with [WQOptions]: striding receives, [StridingOptions].
//   - DC, the dynamically connected transport: [DCOptions], [ResetDCIStream].
//   - Paths: [QueryLAGPort], [ModifyLAGPort] and [LAGPort] of a bond; [ModifyUDPPort]; [MapAHToQP]; [ReserveQPN] and
//     [ReservedQPN]. [CancelSends].
//   - Atomics with masks: [QueryMaskedAtomics], [MaskedAtomicCaps], [AtomicSizes].
//   - Rates: [CreateSchedRoot], [SchedNode], [SchedLeaf], [SchedOptions], [ScheduleQP]; [AllocPacketPacing],
//     [PacketPacing], [PacketPacingFlags].
//
// # Work requests
//
//   - [CreateMkey] with [MkeyOptions] and [MkeyFlags] makes an [Mkey], an indirect key. [Mkey.Change] makes
//     a work request of a [MkeyConfig]: lists, interleaved blocks ([Block]), rights.
//   - Signatures: [BlockSignature], [SigDomain], [BlockT10DIF], [BlockCRC], [T10DIFFlags], [SigBytes]. [Mkey.Check]
//     returns a [SigError] with a [SigErrorKind].
//   - Encryption: [LoginCrypto], [LogoutCrypto], [QueryCrypto], [CryptoLogin], [CryptoState], [CreateDEK], [DEK],
//     [DEKOptions], [DEKInfo], [BlockCrypto].
//   - [Memcpy] has the device copy memory. [RawWQE] posts a WQE that the program built.
//
// # Steering
//
// [CreateFlowMatcher] makes rules that compare any field that the device can parse. They are in the kernel's tables,
// with those of ibv's CreateFlow. [CreateDRDomain] is libmlx5's own steering, with tables that lead to each other.
//
//   - Fields: [Match], [MatchHeaders], [MatchMisc], [MatchMisc2], [MatchMisc3], [MatchMisc4], [MatchMisc5].
//   - Rules: [FlowMatcher], [FlowMatcherOptions], [FlowTable], [Flow]. Each [FlowAction] of a rule is one of
//     [FlowToQP], [FlowToDevX], [FlowDrop], [FlowMiss], [FlowTag], [FlowCount], [FlowApply].
//   - Actions to apply: [CreateHeaderAction] changes headers by each [HeaderAction] of a [HeaderField] ([SetHeader],
//     [SetHeaderBits], [AddHeader], [CopyHeader]); [CreateReformatAction] and [Reformat] are for tunnels;
//     [CreateESPAction].
//   - Direct rules: [DRDomain], [DRDomainType], [DRSync], [DRTable], [DRMatcher], [DRLayout], [DRRule], [DRAction],
//     [DRDest], [DRMeter], [DRSampler], [DRASO], [DRASOFlags].
//   - [CreateSteeringAnchor] makes a [SteeringAnchor], for steering by DevX.
//
// # Commands
//
// DevX sends commands of the device's programming manual.
//
//   - [DevXCommand], [CreateDevXObject] and [DevXObject]; [DevXQuery] and [DevXModify] for [Commandable] objects of
//     ibv. [CommandError] has a [CommandStatus].
//   - Without waiting: [CreateDevXQueries], [DevXQueries], [DevXAnswer].
//   - Events: [CreateDevXEvents], [DevXEvents], [DevXEvent], [EventType].
//   - Memory and doorbells: [RegUmem], [RegUmemDmabuf], [Umem], [UmemOptions]; [AllocUAR], [UAR], [UARType];
//     [AllocVAR], [VAR]; [QueryEQN].
//
// # Rings
//
// A program can build WQEs and read CQEs itself. A ring has one writer for the life of its CQ: create CQs, and SRQs
// used with them, with the option DataPath: ibv.DataPathRaw, and QPs on these CQs. Neither ibv nor libmlx5 then
// touches the rings, doorbell records and registers. ibv still connects, modifies and closes the QPs. Objects of
// other data paths are refused.
//
//   - [ViewQP] and [QPView], [ViewCQ] and [CQView], [ViewSRQ] and [SRQView], [ViewWQ] and [WQView]; [Ring].
//   - [WQEOpcode] and [WQEFlags] of a WQE. [StridesOf] and [Strides] of a completion.
//
// For example, a send of 64 bytes:
//
//	cq, err := dev.CreateCQ(64, &ibv.CQOptions{DataPath: ibv.DataPathRaw})
//	qp, err := pd.CreateQP(cq, cq, nil)                   // connect it as usual
//	q, err := mlx5dv.ViewQP(qp)
//	c, err := mlx5dv.ViewCQ(cq)
//	q.Control(0, mlx5dv.OpSend, mlx5dv.WQESignaled, 2, 0) // two segments of 16 bytes
//	seg, sge := q.SQ.Entry(0)[16:], mr.SGE(0, 64)
//	binary.BigEndian.PutUint32(seg, sge.Length)
//	binary.BigEndian.PutUint32(seg[4:], sge.LKey)
//	binary.BigEndian.PutUint64(seg[8:], sge.Addr)
//	q.RingSend(1, 0)                                      // one block; the last WQE begins at block 0
//	for c.Entry(0) == nil {
//	}
//	c.Consumed(1)
//
// The library owns the memory, which is valid until the object is closed. An access after that ends the process.
// Build WQEs with plain stores: RingSend, RingRecv and the like order them before the doorbell. Never use
// sync/atomic on a register: on amd64 that is a locked instruction, which device memory does not support.
//
// # Goroutines, lifetime, errors
//
// Everything is safe for concurrent use except views of rings, whose comments state the rule. Objects belong to the
// Device, PD or object from which they were made, which cannot be closed before them. Errors are [*ibv.OpError]; a
// command that the device refused is a [*CommandError].
//
// Functions return [ibv.ErrNotSupported] for devices of other providers, and if the library is too old. libmlx5 must
// be from rdma-core v22 or later. Functions that need a later release name it. DC QPs on the ops data path need v24,
// streams of a DCI v37.
//
// # Environment
//
// Packages ibv and loader list the variables. This package adds none.
package mlx5dv
