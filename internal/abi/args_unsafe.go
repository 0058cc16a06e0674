package abi

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// AppendSpec appends a struct of C, such as a spec of a steering rule, to b.
func AppendSpec[T any](b []byte, s *T) []byte {
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))...)
}

// ESP has the parameters of an ESP action.
type ESP struct {
	Attr   FlowActionESP
	Keymat ESPKeymatAESGCM
	Replay ESPReplayBMP
	ESN    *uint32
	HasKey bool // Keymat is given
	// HasReplay means that Replay is given; without it nothing protects against replays.
	HasReplay bool

	c FlowActionESPAttr
}

// C builds the struct that C gets. Its pointers lead to e, which must stay where it is, and alive.
func (e *ESP) C() *FlowActionESPAttr {
	e.c = FlowActionESPAttr{ESPAttr: uintptr(unsafe.Pointer(&e.Attr))}
	if e.HasKey {
		e.c.KeymatPtr, e.c.KeymatLen = uintptr(unsafe.Pointer(&e.Keymat)), uint16(unsafe.Sizeof(e.Keymat))
	}
	if e.HasReplay {
		e.c.ReplayProto = IBV_FLOW_ACTION_ESP_REPLAY_BMP
		e.c.ReplayPtr, e.c.ReplayLen = uintptr(unsafe.Pointer(&e.Replay)), uint16(unsafe.Sizeof(e.Replay))
	}
	if e.ESN != nil {
		e.c.CompMask, e.c.ESN = IBV_FLOW_ACTION_ESP_MASK_ESN, *e.ESN
	}
	return &e.c
}

// WithRSSKey sets the receive-side scaling of a, and calls create with the key in place.
func (a *QPInitAttrEx) WithRSSKey(function uint8, fields uint64, key []byte,
	create func() (uintptr, error)) (uintptr, error) {
	a.RxHashConf = RxHashConf{RxHashFunction: function, RxHashKeyLen: uint8(len(key)), RxHashFieldsMask: fields,
		RxHashKey: cmem.Heap(unsafe.Pointer(unsafe.SliceData(key)))}
	h, err := create()
	runtime.KeepAlive(key)
	return h, err
}

// PathBytes returns paths as the value of the option RDMA_OPTION_IB_PATH. It shares their memory.
func PathBytes(paths []PathData) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(paths))), len(paths)*int(unsafe.Sizeof(PathData{})))
}

// Conn is the event's parameter of a connection.
func (e *RDMACMEvent) Conn() *RDMAConnParam { return (*RDMAConnParam)(unsafe.Pointer(&e.Param)) }

// Arg is the event's parameter of RDMA_CM_EVENT_USER.
func (e *RDMACMEvent) Arg() uint64 { return *(*uint64)(unsafe.Pointer(&e.Param)) }
