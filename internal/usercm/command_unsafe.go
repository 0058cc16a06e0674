package usercm

import (
	"runtime"
	"structs"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// message is a command as it is written: struct rdma_ucm_cmd_hdr, and the struct of the command.
type message[Q any] struct {
	_       structs.HostLayout
	command Command
	in, out uint16
	body    Q
}

// bytes views a struct of a fixed layout.
func bytes[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// Tell writes a command that has no response.
func Tell[Q any](w Writer, c Command, q *Q) error {
	m := &message[Q]{command: c, in: uint16(unsafe.Sizeof(*q)), body: *q}
	return write(w, c, bytes(m), nil)
}

// Ask writes a command, and has the kernel store its response in r. at is the field of q that holds r's address. What a
// kernel leaves out, because it has a shorter response, stays in r.
func Ask[Q, R any](w Writer, c Command, q *Q, at *uint64, r *R) error {
	resp := new(R) // on the heap, where it does not move
	*resp = *r
	*at = uint64(cmem.Heap(unsafe.Pointer(resp)))
	m := &message[Q]{command: c, in: uint16(unsafe.Sizeof(*q)), out: uint16(unsafe.Sizeof(*r)), body: *q}
	err := write(w, c, bytes(m), bytes(resp))
	runtime.KeepAlive(resp)
	if err == nil {
		*r = *resp
	}
	return err
}

// Give writes a command without a response that has the address of b, which the kernel reads.
func Give[Q any](w Writer, c Command, q *Q, at *uint64, b []byte) error {
	if len(b) > 0 {
		*at = uint64(cmem.Heap(unsafe.Pointer(unsafe.SliceData(b))))
	}
	err := Tell(w, c, q)
	runtime.KeepAlive(b)
	return err
}

// Conn returns the event's parameter of a connection.
func (e *Event) Conn() (p ConnParam) {
	copy(bytes(&p), e.Param[:])
	return p
}

// UD returns the event's parameter of datagrams, or of a multicast group.
func (e *Event) UD() (p UDParam) {
	copy(bytes(&p), e.Param[:])
	return p
}

// Sizes and offsets of rdma/rdma_user_cm.h.
var (
	_ [8]byte   = [unsafe.Offsetof(message[uint64]{}.body)]byte{}
	_ [24]byte  = [unsafe.Sizeof(CreateID{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(Query{})]byte{}
	_ [280]byte = [unsafe.Sizeof(AddrResp{})]byte{}
	_ [440]byte = [unsafe.Sizeof(PathResp{})]byte{}
	_ [64]byte  = [unsafe.Sizeof(PathRec{})]byte{}
	_ [208]byte = [unsafe.Sizeof(RouteResp{})]byte{}
	_ [196]byte = [unsafe.Offsetof(RouteResp{}.Port)]byte{}
	_ [136]byte = [unsafe.Sizeof(Bind{})]byte{}
	_ [272]byte = [unsafe.Sizeof(ResolveAddr{})]byte{}
	_ [272]byte = [unsafe.Sizeof(ConnParam{})]byte{}
	_ [304]byte = [unsafe.Sizeof(UDParam{})]byte{}
	_ [288]byte = [unsafe.Sizeof(Connect{})]byte{}
	_ [296]byte = [unsafe.Sizeof(Accept{})]byte{}
	_ [264]byte = [unsafe.Sizeof(Reject{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(SetOption{})]byte{}
	_ [152]byte = [unsafe.Sizeof(JoinMcast{})]byte{}
	_ [336]byte = [unsafe.Sizeof(Event{})]byte{}
	_ [320]byte = [unsafe.Sizeof(WriteCMEvent{})]byte{}
	_ [144]byte = [unsafe.Sizeof(QPAttr{})]byte{}

	_ [272]byte = [unsafe.Offsetof(Connect{}.ID)]byte{}
	_ [280]byte = [unsafe.Offsetof(Accept{}.ID)]byte{}
	_ [20]byte  = [unsafe.Offsetof(Event{}.Param)]byte{}
	_ [16]byte  = [unsafe.Offsetof(WriteCMEvent{}.Param)]byte{}
	_ [16]byte  = [unsafe.Offsetof(AddrResp{}.Src)]byte{}
	_ [104]byte = [unsafe.Offsetof(QPAttr{}.Cap)]byte{}
)
