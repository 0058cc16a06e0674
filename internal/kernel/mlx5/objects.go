package mlx5

import (
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// pd is a protection domain, or a parent domain of one.
type pd struct {
	kernelObject
	device uint32 // the device's number
	parent bool
	reg    *register // of a parent domain with a thread domain
}

// td is a thread domain: a register.
type td struct {
	object
	reg *register
}

// mr is a memory region.
type mr struct {
	object
	number uint32 // the kernel's handle
	null   bool   // the kernel has no such object

	mu     sync.Mutex
	pd     handle
	addr   uintptr
	length int
	lkey   uint32
	rkey   uint32
}

// mw is a memory window.
type mw struct {
	object
	number, key uint32
}

// dm is device memory.
type dm struct {
	object
	number uint32
	mem    []byte // the mapped pages
	words  []uint32
	length uint64
}

// channel is a completion channel.
type channel struct {
	object
	fd    int
	given bool // to the caller of ChannelFD
}

// ringed is the part of objects that have a ring and async events.
type ringed struct {
	object
	queue          queue
	number, kernel uint32 // the device's and the kernel's
	async          count
}

func of(c *context) ringed { return ringed{object: object{c: c}} }

func (r *ringed) asyncCount() *count { return &r.async }

// cq is a completion queue.
type cq struct {
	ringed
	cookie      uintptr
	size        uint32 // bytes of an entry
	entries     atomic.Uint32
	completions count
}

// srq is a shared receive queue.
type srq struct {
	ringed
	stride uint32
	tail   uint32 // the last WQE of the free list
}

// sizes are of the rings of a QP.
type sizes struct {
	blocks     uint64 // of 64 bytes, of the send queue
	wqes       uint64 // of the receive queue
	stride     uint64
	granted    abi.QPCap
	wqe, fixed uint64 // bytes of a send WQE, and how many of them are no data
	header     uint64 // of TSO, in addition
	head       uint64 // bytes of a receive WQE that are no data
}

// queue is a ring with its doorbell record.
type queue struct {
	ring   ring
	record record
}

// ece are the options of enhanced connection establishment of a QP.
type ece struct {
	mu     sync.Mutex
	wanted uint32 // for the next modification
	have   uint32 // what the device granted
}

// own are the attributes of a QP that only mlx5 has.
type own struct {
	flags   uint32   // of abi.MLX5IBCreateQP
	ops     uint64   // work requests. C: enum mlx5dv_qp_create_send_ops_flags
	key     uint64   // of a DCT
	streams [2]uint8 // of a DCI
	ordered bool     // data may come out of order
	copies  bool     // it has to be told that it copies
	drains  bool     // a wrong signature stops the send queue
	numbers abi.MLX5IBCreateQPResp
}

// qp is a queue pair.
type qp struct {
	ringed                  // the ring has the receive queue, then the send queue
	init   abi.QPInitAttrEx // as granted
	opened bool             // another process has the rings, or there are none
	own    own
	sizes  sizes
	sends  ring // the send queue of a raw packet QP
	reg    *register
	state  atomic.Uint32
	ece    ece
}

// wq is a receive queue without a QP.
type wq struct {
	ringed
	wqes, stride uint32
	state        atomic.Uint32
}

type (
	indTable struct{ kernelObject } // an indirection table
	xrcd     struct{ kernelObject } // an XRC domain
)

// flow is a steering rule.
type flow struct {
	kernelObject
	counts *counters // nil if it has none
}

// ah is an address handle.
type ah struct {
	object
	av     []byte
	kernel uint32
	inUse  bool // the kernel has it too
	global bool // it has a GID

	mu      sync.Mutex
	mapping *obj // to a QP; nil if there is none
}

// More objects of DevX, and those of steering.
type (
	umem       struct{ kernelObject }
	varPage    struct{ kernelObject }
	pace       struct{ kernelObject }
	matcher    struct{ kernelObject }
	flowAction struct{ kernelObject }
	anchor     struct{ kernelObject }
)

// mkey is an indirect memory key: the places of its signature, then the key.
type mkey struct {
	object
	parts []obj
}

// dek is a key that encrypts.
type dek struct {
	obj
	id uint32
}

// uar is a page of doorbell registers of the program's.
type uar struct {
	object
	reg   *register // the first one
	taken *register // of a shared page; nil if there is none
	own   *bar      // a page of its own; nil if it has none
}

// eventFile is a file of the device's events.
type eventFile struct {
	object
	fd int
}

// answerFile is a file of answers to commands.
type answerFile struct {
	object
	fd int

	mu    sync.Mutex
	sizes map[uint64]int // of the answers to come, by the number of the query
}

// counters count the frames of steering rules.
type counters struct {
	kernelObject

	mu     sync.Mutex
	points []abi.MLX5IBFlowCountersDesc // what each index counts
	rules  int                          // that use them
}

// share is an element of the tree that divides the bandwidth.
type share struct {
	obj
	id   uint32 // the device's number
	kind uint32
}

// Kinds of elements. C: MLX5_SCHED_ELEM_TYPE_*.
const (
	schedNode = 0
	schedLeaf = 4
)
