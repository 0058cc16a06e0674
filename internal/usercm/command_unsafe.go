package usercm

import (
	"runtime"
	"structs"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// message is a command as it is written: struct rdma_ucm_cmd_hdr, and the struct of the command.
type message[Q any] struct {
	_       structs.HostLayout
	command Command
	in, out uint16
	body    Q
}

// The build breaks here if the mirror loses its layout.
var _ [440]byte = [unsafe.Sizeof(PathResp{})]byte{}

// Tell writes a command that has no response.
func Tell[Q any](w Writer, c Command, q *Q) error {
	m := &message[Q]{command: c, in: uint16(unsafe.Sizeof(*q)), body: *q}
	return write(w, c, uverbs.Bytes(m), nil)
}

// Ask writes a command, and has the kernel store its response in r. at is the field of q that holds r's address. What a
// kernel leaves out, because it has a shorter response, stays in r.
func Ask[Q, R any](w Writer, c Command, q *Q, at *uint64, r *R) error {
	resp := new(R) // on the heap, where it does not move
	*resp = *r
	*at = uverbs.Address(uverbs.Bytes(resp))
	m := &message[Q]{command: c, in: uint16(unsafe.Sizeof(*q)), out: uint16(unsafe.Sizeof(*r)), body: *q}
	err := write(w, c, uverbs.Bytes(m), uverbs.Bytes(resp))
	runtime.KeepAlive(resp)
	if err == nil {
		*r = *resp
	}
	return err
}

// Give writes a command without a response that has the address of b, which the kernel reads.
func Give[Q any](w Writer, c Command, q *Q, at *uint64, b []byte) error {
	if len(b) > 0 {
		*at = uverbs.Address(b)
	}
	err := Tell(w, c, q)
	runtime.KeepAlive(b)
	return err
}

// Conn returns the event's parameter of a connection.
func Conn(e *abi.UCMEventResp) (p abi.UCMConnParam) {
	copy(uverbs.Bytes(&p), e.Param[:])
	return p
}

// UD returns the event's parameter of datagrams, or of a multicast group.
func UD(e *abi.UCMEventResp) (p abi.UCMUDParam) {
	copy(uverbs.Bytes(&p), e.Param[:])
	return p
}
