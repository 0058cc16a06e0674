//go:build linux

package uapi

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// VerbsIoctl is the ioctl request RDMA_VERBS_IOCTL.
const VerbsIoctl = 0xc0181b01

// Sizes and flags of the ioctl's attributes.
const (
	HeaderSize  = 24
	AttrSize    = 16
	DriverMlx5  = 1
	maxIoctlLen = 4096 // the kernel's: one page

	attrMandatory   = 1 << 0
	attrValidOutput = 1 << 1
)

// Memory is the memory of the program that asks.
type Memory interface {
	Read(addr uint64, b []byte) error
	Write(addr uint64, b []byte) error
}

// SpanMemory is a Memory that many spans can be written to at once.
type SpanMemory interface {
	Memory
	WriteSpans(all []Span) error
}

// Kind is how an attribute's data is to be taken.
type Kind uint8

// Kinds of attributes.
const (
	In     Kind = iota // bytes for the kernel, inline if not more than eight
	Out                // room for the kernel's answer
	Handle             // an object that is there
	FD                 // a file descriptor
	Enum               // one of Max values, without data
	NewID              // the kernel writes a handle or a file descriptor into the attribute itself
)

// Spec is what the kernel knows of one attribute of a method.
type Spec struct {
	ID       uint16
	Kind     Kind
	Min, Max uint16
	Optional bool
	Trailing bool // may be longer than Max if the rest is zero (In), or simply longer (Out)
}

// Method is one method of one object.
type Method struct {
	Object, ID uint16
	Name       string
	Attrs      []Spec
}

// Bundle is a request whose attributes were checked. What is answered reaches the program with Flush.
type Bundle struct {
	Method *Method
	mem    SpanMemory
	attrs  []Attr
	in     [][]byte // by index in Method.Attrs; nil: absent
	idx    []int    // index in attrs, by index in Method.Attrs; -1: absent
	addr   uint64   // of the attributes
	out    []Span
	marked bool // attrs were changed
}

// Span is what to write where.
type Span struct {
	Addr  uint64
	Bytes []byte
}

// ReadIoctl fetches and checks the ioctl's argument at addr as the kernel does. find gives the method for (object, id),
// or nil.
func ReadIoctl(mem SpanMemory, addr uint64, find func(object, id uint16) *Method) (*Bundle, unix.Errno) {
	// The attributes follow the header: those in its page are read with it.
	const usual, page = HeaderSize + 20*AttrSize, 4096
	hb := make([]byte, max(HeaderSize, min(usual, page-addr%page)))
	if mem.Read(addr, hb) != nil {
		if hb = hb[:HeaderSize]; mem.Read(addr, hb) != nil {
			return nil, unix.EFAULT
		}
	}
	h := Decode[Header](hb)
	switch {
	case h.Length > maxIoctlLen, int(h.Length) != HeaderSize+int(h.NumAttrs)*AttrSize:
		return nil, unix.EINVAL
	case h.Reserved1 != 0 || h.Reserved2 != 0:
		return nil, unix.EPROTONOSUPPORT
	case h.DriverID != DriverMlx5:
		return nil, unix.EINVAL
	}
	m := find(h.ObjectID, h.MethodID)
	if m == nil {
		return nil, unix.EPROTONOSUPPORT
	}
	b := &Bundle{Method: m, mem: mem, addr: addr + HeaderSize, attrs: make([]Attr, h.NumAttrs),
		in: make([][]byte, len(m.Attrs)), idx: slices.Repeat([]int{-1}, len(m.Attrs))}
	to := sliceBytes(b.attrs)
	if n := copy(to, hb[HeaderSize:]); n < len(to) && mem.Read(b.addr+uint64(n), to[n:]) != nil {
		return nil, unix.EFAULT
	}
	for i := range b.attrs {
		if e := b.take(i); e != 0 {
			return nil, e
		}
	}
	for i, s := range m.Attrs {
		if !s.Optional && b.idx[i] < 0 {
			return nil, unix.EINVAL
		}
	}
	return b, 0
}

func (b *Bundle) take(i int) unix.Errno {
	a := &b.attrs[i]
	n := b.spec(a.AttrID)
	if n < 0 {
		if a.Flags&attrMandatory != 0 {
			return unix.EPROTONOSUPPORT
		}
		return 0
	}
	s := &b.Method.Attrs[n]
	if b.idx[n] >= 0 || a.ElemID != 0 && s.Kind != Enum || a.Reserved != 0 || a.Len != 0 && s.Kind > Out {
		return unix.EINVAL
	}
	switch s.Kind {
	case In:
		p, e := b.fetch(a)
		if e != 0 {
			return e
		}
		if len(p) > int(s.Max) && s.Trailing && !Cleared(p, int(s.Max)) {
			return unix.EOPNOTSUPP
		}
		b.in[n] = p
		fallthrough
	case Out:
		if a.Len < s.Min || a.Len > s.Max && !s.Trailing {
			return unix.EINVAL
		}
	case Enum:
		if uint16(a.ElemID) >= s.Max {
			return unix.EOPNOTSUPP
		}
	}
	b.idx[n] = i
	return 0
}

func (b *Bundle) fetch(a *Attr) ([]byte, unix.Errno) {
	p := make([]byte, a.Len, max(int(a.Len), 8))
	if a.Len <= 8 {
		binary.NativeEndian.PutUint64(p[:8], a.Data)
		return p, 0
	}
	if b.mem.Read(a.Data, p) != nil {
		return nil, unix.EFAULT
	}
	return p, 0
}

func (b *Bundle) spec(id uint16) int {
	for i := range b.Method.Attrs {
		if b.Method.Attrs[i].ID == id {
			return i
		}
	}
	return -1
}

func (b *Bundle) attr(id uint16) *Attr {
	if n := b.spec(id); n >= 0 && b.idx[n] >= 0 {
		return &b.attrs[b.idx[n]]
	}
	return nil
}

// Has reports whether the attribute was given.
func (b *Bundle) Has(id uint16) bool { return b.attr(id) != nil }

// Bytes returns an In attribute's data, or nil if absent.
func (b *Bundle) Bytes(id uint16) []byte {
	if n := b.spec(id); n >= 0 {
		return b.in[n]
	}
	return nil
}

// Uint returns an In attribute of at most eight bytes, or a Handle or file descriptor; 0 if absent.
func (b *Bundle) Uint(id uint16) uint64 {
	a := b.attr(id)
	if a == nil {
		return 0
	}
	switch n := b.spec(id); b.Method.Attrs[n].Kind {
	case In:
		return Decode[uint64](b.in[n])
	case Enum:
		return uint64(a.ElemID)
	}
	return a.Data
}

// Handles lists the objects that are named.
func (b *Bundle) Handles() (hs []uint64) {
	for i := range b.Method.Attrs {
		if b.Method.Attrs[i].Kind == Handle && b.idx[i] >= 0 {
			hs = append(hs, b.attrs[b.idx[i]].Data)
		}
	}
	return hs
}

// Room returns the place for an Out attribute's answer; its zero value if absent.
func (b *Bundle) Room(id uint16) Room {
	a := b.attr(id)
	if a == nil {
		return Room{}
	}
	return Room{mem: b.mem, Addr: a.Data, Len: int(a.Len), bundle: b, attr: a}
}

// SetID writes the handle or descriptor of what was made into its NewID attribute.
func (b *Bundle) SetID(id uint16, v uint64) unix.Errno {
	a := b.attr(id)
	if a == nil {
		return unix.EINVAL
	}
	a.Data, b.marked = v, true
	return 0
}

// Flush writes the answers, and after them the attributes.
func (b *Bundle) Flush() unix.Errno {
	all := b.out
	if b.marked {
		all = append(all, Span{b.addr, sliceBytes(b.attrs)})
	}
	b.out, b.marked = nil, false
	if b.mem.WriteSpans(all) != nil {
		return unix.EFAULT
	}
	return 0
}

// Filler is a Memory that makes answers longer.
type Filler interface {
	// Fill returns p, an answer for a room of n bytes, as it is written.
	Fill(p []byte, n int) []byte
}

// Room is where an answer goes.
type Room struct {
	mem    Memory
	Addr   uint64
	Len    int
	bundle *Bundle // nil for a write(): the answer is written at once
	attr   *Attr   // of the bundle
}

// Put writes p, cut to the room there is; what p does not fill is cleared if clear is set. No room at all is no error.
func (r Room) Put(p []byte, clear bool) unix.Errno {
	if r.mem == nil {
		return 0
	}
	p = p[:min(len(p), r.Len)]
	if f, ok := r.mem.(Filler); ok {
		p = f.Fill(p, r.Len)
	}
	if clear && len(p) < r.Len {
		p = append(make([]byte, 0, r.Len), p...)[:r.Len]
	}
	switch {
	case len(p) == 0:
	case r.bundle != nil:
		r.bundle.out = append(r.bundle.out, Span{r.Addr, p})
	case r.mem.Write(r.Addr, p) != nil:
		return unix.EFAULT
	}
	return r.Valid()
}

// Valid marks the attribute as answered.
func (r Room) Valid() unix.Errno {
	if r.attr != nil {
		r.attr.Flags |= attrValidOutput
		r.bundle.marked = true
	}
	return 0
}
