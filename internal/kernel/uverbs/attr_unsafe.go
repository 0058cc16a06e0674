package uverbs

import (
	"structs"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// Attr is struct ib_uverbs_attr of rdma/rdma_user_ioctl_cmds.h.
type Attr struct {
	_     structs.HostLayout
	ID    uint16
	Len   uint16
	Flags uint16
	_     uint16
	Data  uint64
}

// header is struct ib_uverbs_ioctl_hdr.
type header struct {
	_      structs.HostLayout
	length uint16
	Object uint16
	Method uint16
	Num    uint16 // of attributes
	_      uint64
	driver uint32
	_      uint32
}

// maxAttrs is more attributes than any method here has.
const maxAttrs = 20

// Command is the argument of the ioctl.
type Command struct {
	_ structs.HostLayout
	header
	Attrs [maxAttrs]Attr
}

const (
	mandatory = 1 << 0 // C: UVERBS_ATTR_F_MANDATORY

	// ValidOutput marks an attribute that the kernel has answered. C: UVERBS_ATTR_F_VALID_OUTPUT
	ValidOutput = 1 << 1

	driverIn  = 1 << 12 // C: UVERBS_ATTR_UHW_IN
	driverOut = driverIn + 1
)

var (
	_ [24]byte = [unsafe.Sizeof(header{})]byte{}
	_ [16]byte = [unsafe.Sizeof(Attr{})]byte{}
	_ [24]byte = [unsafe.Offsetof(Command{}.Attrs)]byte{}
)

// Arg is an argument of a method.
type Arg struct {
	attr     Attr
	out      []byte  // where the answer goes
	want     bool    // the kernel must answer
	new      *uint32 // where the number of a new object goes
	in       []byte  // keeps memory that data names
	optional bool    // left out
}

// Bytes returns the memory of a struct without pointers.
func Bytes[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// BytesOf returns the memory of a slice of structs without pointers.
func BytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), uintptr(len(s))*sizeOf[T]())
}

func sizeOf[T any]() uintptr {
	var v T
	return unsafe.Sizeof(v)
}

// Address moves b to the heap and returns its address. The caller keeps b alive.
func Address(b []byte) uint64 { return uint64(cmem.Heap(unsafe.Pointer(unsafe.SliceData(b)))) }

// In is an argument of bytes. Up to 8 of them are in the attribute itself.
func In(id uint16, b []byte) Arg {
	a := Arg{attr: Attr{ID: id, Len: uint16(len(b)), Flags: mandatory}, in: b}
	if len(b) <= 8 {
		copy(Bytes(&a.attr.Data), b)
		return a
	}
	a.attr.Data = Address(b)
	return a
}

// Uint32 is an argument of 4 bytes.
func Uint32(id uint16, v uint32) Arg { return In(id, Bytes(&v)) }

// Uint64 is an argument of 8 bytes, also of a constant or a set of flags.
func Uint64(id uint16, v uint64) Arg {
	return Arg{attr: Attr{ID: id, Len: 8, Flags: mandatory, Data: v}}
}

// Handle is an argument that names an object.
func Handle(id uint16, h uint32) Arg {
	return Arg{attr: Attr{ID: id, Flags: mandatory, Data: uint64(h)}}
}

// FD is an argument that names a descriptor; a negative one leaves the argument out.
func FD(id uint16, fd int) Arg {
	return Arg{attr: Attr{ID: id, Flags: mandatory, Data: uint64(fd)}, optional: fd < 0}
}

// New is an argument that the kernel answers with the number of a new object, or a descriptor.
func New(id uint16, h *uint32) Arg { return Arg{attr: Attr{ID: id, Flags: mandatory}, new: h} }

// Out is an argument that the kernel answers with as many bytes as b has.
func Out(id uint16, b []byte) Arg { return Arg{attr: outAttr(id, b), out: b, want: true} }

// May is Out, but the kernel may answer nothing.
func May(id uint16, b []byte) Arg { return Arg{attr: outAttr(id, b), out: b} }

func outAttr(id uint16, b []byte) Attr {
	return Attr{ID: id, Len: uint16(len(b)), Flags: mandatory, Data: Address(b)}
}

// Ignorable is an argument that an older kernel may pass over.
func Ignorable(a Arg) Arg {
	a.attr.Flags &^= mandatory
	return a
}

// If leaves an argument out unless ok.
func If(ok bool, a Arg) Arg {
	a.optional = a.optional || !ok
	return a
}
