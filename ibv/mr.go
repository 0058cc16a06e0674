package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// MR is memory that the device may access.
//
// It belongs to its PD. Its methods are safe for concurrent use; the caller synchronises access
// to the bytes with the device. The memory stays valid until Close. Do not call Close before
// the device has finished with the memory: wait for the completions first, or move the QPs that
// use it to the error state, or close them.
//
// mlx5 delivers short payloads inside completions, and the CPU copies them to memory when the
// completions are polled. Close therefore reads what is in the CQs first; Poll returns those
// completions later. Close does not touch CQs with SingleThreaded: poll all their completions
// before Close, or close the QPs.
//
// C: struct ibv_mr.
type MR struct {
	node
	pd     *PD
	handle uintptr
	buf    []byte
	addr   uintptr
	length int
	iova   uint64
	lkey   uint32
	rkey   uint32
	access AccessFlags // unknownAccess if another process or library registered it
	mem    *dma.Mem    // memory that AllocMR allocated
	pin    *dma.Pinned // the caller's slice of RegMR or Rereg

	fixed   string                 // memory that Rereg cannot change, "device memory"; "" for ordinary memory
	release func(mr uintptr) error // what Close calls; nil is DeregMR
}

// unknownAccess has all rights: only the device knows the access that a registration really has.
const unknownAccess AccessFlags = 1<<32 - 1

// MemOptions choose the memory of AllocMR.
type MemOptions struct {
	// HugePages asks for huge pages, which need fewer translations in the device. The kernel
	// must have reserved some (/proc/sys/vm/nr_hugepages).
	HugePages HugePages
	// NUMA is where to place the memory; the zero value is NUMAAny. When that node has no
	// memory left, the kernel uses another.
	NUMA NUMA
}

// HugePages selects whether memory consists of huge pages.
type HugePages uint8

const (
	HugeNone    HugePages = 0 // ordinary pages
	HugeTry     HugePages = 1 // huge pages if available, ordinary ones otherwise
	HugeRequire HugePages = 2 // huge pages or an error
)

// NUMA is a place for memory on a machine with several memory nodes: NUMAAny, NUMADevice or a
// result of NUMANode.
type NUMA struct {
	kind numaKind
	node int
}

type numaKind uint8

const (
	numaAny    numaKind = 0
	numaDevice numaKind = 1
	numaNode   numaKind = 2
)

var (
	// NUMAAny leaves the choice to the kernel: near the thread that first touches the memory.
	NUMAAny = NUMA{}
	// NUMADevice is near the device of the PD, which is usually best for buffers. It falls back
	// to NUMAAny if the node of the device is unknown, or if this process may not use it.
	NUMADevice = NUMA{kind: numaDevice}
)

// NUMANode returns node n, from 0, as numactl -H numbers them.
func NUMANode(n int) NUMA { return NUMA{numaNode, n} }

// String returns "any", "device" or the node, as in "node 1".
func (n NUMA) String() string {
	switch n.kind {
	case numaDevice:
		return "device"
	case numaNode:
		return fmt.Sprintf("node %d", n.node)
	}
	return "any"
}

// of returns the node for a device, nil for any.
func (n NUMA) of(device string) *int {
	switch n.kind {
	case numaDevice:
		if node, ok := sysfs.DefaultRoot().NUMANode(device); ok {
			return &node
		}
	case numaNode:
		return &n.node
	}
	return nil
}

// AllocMR allocates page-aligned, zeroed memory outside the Go heap and registers it; opt may
// be nil. MR.Bytes returns the memory, which Close frees.
func (pd *PD) AllocMR(size int, access AccessFlags, opt *MemOptions) (*MR, error) {
	const op = "alloc mr"
	if opt == nil {
		opt = &MemOptions{}
	}
	name := pd.dev.Name()
	if size < 1 {
		return nil, opError(op, name, &ArgError{Arg: "size", Got: fmt.Sprint(size), Want: "at least 1 byte"})
	}
	if opt.HugePages > HugeRequire {
		got := fmt.Sprintf("HugePages(%d)", uint8(opt.HugePages))
		return nil, opError(op, name, &ArgError{Arg: "HugePages", Got: got, Want: "HugeNone, HugeTry or HugeRequire"})
	}
	place := dma.Options{Huge: dma.Huge(opt.HugePages), Node: opt.NUMA.of(name)}
	mem, err := dma.Alloc(size, &place)
	var node *dma.NodeError
	if opt.NUMA == NUMADevice && errors.As(err, &node) {
		place.Node = nil // a container may lack that node, or the right to choose it
		mem, err = dma.Alloc(size, &place)
	}
	if err != nil {
		return nil, opError(op, name, err)
	}
	mr := &MR{pd: pd, mem: mem, buf: mem.Bytes()[:size], addr: mem.Addr(), length: size, iova: uint64(mem.Addr()),
		access: access}
	m, err := mr.open(op, mr.register)
	if err != nil {
		err = errors.Join(err, mem.Free())
	}
	return m, err
}

// RegMR registers a slice. Memory of the Go heap is pinned until Close: the garbage collector
// neither frees nor moves it. A small slice may share its pages with other Go objects, which
// are then also registered for the device. AllocMR avoids that, and is the better choice for
// long-lived buffers.
//
// C: ibv_reg_mr(3), ibv_reg_mr_iova2(3) with optional access flags.
func (pd *PD) RegMR(buf []byte, access AccessFlags) (*MR, error) {
	const op = "register mr"
	if len(buf) == 0 {
		got := "0 bytes"
		if buf == nil {
			got = "a nil slice"
		}
		return nil, opError(op, pd.dev.Name(), &ArgError{Arg: "buf", Got: got, Want: "at least 1 byte"})
	}
	mr := &MR{pd: pd, buf: buf, length: len(buf), pin: dma.Pin(buf), addr: cmem.SliceAddr(buf), access: access}
	mr.iova = uint64(mr.addr)
	m, err := mr.open(op, mr.register)
	if err != nil {
		mr.pin.Unpin()
	}
	return m, err
}

// RegMemory registers memory that Go does not manage, at the given address of this process; the
// caller keeps owning it. The device addresses its first byte by iova; for an ordinary
// registration iova equals addr, and siw has no others. Bytes of such an MR returns nil.
//
// On mlx5 the CPU copies short payloads from completions to the address in the work request. QPs that
// exist before an MR whose iova differs from addr therefore refuse to receive into its first 64 bytes.
// QPs created later get no payloads in completions. The same applies to DMs, dma-bufs, imported MRs
// and Mkeys.
//
// C: ibv_reg_mr_iova2(3).
func (pd *PD) RegMemory(addr uintptr, length int, iova uint64, access AccessFlags) (*MR, error) {
	const op = "register mr"
	if length < 1 {
		err := &ArgError{Arg: "length", Got: fmt.Sprint(length), Want: "at least 1 byte"}
		return nil, opError(op, pd.dev.Name(), err)
	}
	mr := &MR{pd: pd, addr: addr, length: length, iova: iova, access: access}
	return mr.open(op, mr.register)
}

// optionalAccess are the flags that a device or kernel may ignore (IBV_ACCESS_OPTIONAL_RANGE).
// Libraries before v28 do not strip them.
const optionalAccess AccessFlags = abi.IBV_ACCESS_OPTIONAL_RANGE

// register makes the C object of memory of this process.
// Preconditions: the caller holds the PD entered.
func (mr *MR) register() (uintptr, error) {
	if err := mr.check(); err != nil {
		return 0, err
	}
	h, err := mr.pd.dev.regMR(mr.pd.handle, mr.addr, mr.length, mr.iova, mr.access)
	return h, mr.pd.dev.explainRegister(err, mr.length, mr.access)
}

// open finishes mr with C's object, which get returns while the PD is open, and what else the memory is of.
func (mr *MR) open(op string, get func() (uintptr, error), more ...*node) (*MR, error) {
	return create(op, mr.pd.dev.Name(), "mr", mr, &mr.node, func() (err error) {
		if mr.handle, err = get(); err == nil {
			mr.takeKeys()
		}
		return err
	}, append([]*node{&mr.pd.node}, more...)...)
}

func (d *Device) regMR(pd, addr uintptr, length int, iova uint64, access AccessFlags) (uintptr, error) {
	plain := iova == uint64(addr)
	if access&optionalAccess == 0 && plain {
		return d.v.RegMR(pd, addr, length, uint32(access))
	}
	if d.v.HasRegMRIOVA2() {
		return d.v.RegMRIOVA2(pd, addr, length, iova, uint32(access))
	}
	access &^= optionalAccess
	if plain {
		return d.v.RegMR(pd, addr, length, uint32(access))
	}
	return d.v.RegMRIOVA(pd, addr, length, iova, uint32(access))
}

// holdCompletions copies the payloads that completions carry to their memory while it is still
// registered.
func (d *Device) holdCompletions() {
	d.direct.mu.Lock()
	defer d.direct.mu.Unlock()
	for _, o := range d.all() {
		if cq, ok := o.(*CQ); ok {
			cq.hold()
		}
	}
}

// Bytes returns the registered memory, nil for RegMemory and after Close.
func (mr *MR) Bytes() []byte {
	if mr.enter("mr bytes") != nil {
		return nil
	}
	defer mr.leave()
	return mr.buf
}

// Len returns the length in bytes.
func (mr *MR) Len() int { return mr.length }

// Addr returns the address by which work requests name the first byte.
func (mr *MR) Addr() uint64 { return mr.iova }

// LKey returns the key for local use, in SGEs.
func (mr *MR) LKey() uint32 { return mr.lkey }

// RKey returns the key for a peer's RDMA and atomic operations.
func (mr *MR) RKey() uint32 { return mr.rkey }

// SGE returns an SGE of n bytes from offset off. For a range outside the MR, or longer than
// MaxSGELength, every post refuses the SGE with an *ArgError.
func (mr *MR) SGE(off, n int) SGE {
	if uint(off) > uint(mr.length) || uint(n) > uint(mr.length-off) || n > MaxSGELength {
		return mr.outside(off, n)
	}
	return SGE{Addr: mr.iova + uint64(off), Length: uint32(n), LKey: mr.lkey}
}

func (mr *MR) outside(off, n int) SGE {
	asked := uint32(lengthHuge)
	if n < 0 {
		asked = lengthNegative
	} else if uint64(n) < lengthHuge {
		asked = uint32(n)
	}
	return SGE{Addr: uint64(off), Length: outsideSGE, LKey: asked}
}

// Remote returns what a peer needs to access the memory.
func (mr *MR) Remote() RemoteMemory {
	return RemoteMemory{Addr: mr.iova, RKey: mr.rkey, Length: uint64(mr.length)}
}

// RemoteMemory is memory of a peer, as the peer's MR.Remote describes it. It holds no pointers:
// send it as JSON or in any other form.
type RemoteMemory struct {
	Addr   uint64 `json:"addr"`
	RKey   uint32 `json:"rkey"`
	Length uint64 `json:"length"`
}

// At returns the address off bytes into the memory. Every post refuses an address beyond the
// end with an *ArgError. A Length of 0 means that the length is unknown: then only the peer's
// device checks.
func (r RemoteMemory) At(off uint64) RemoteAddr {
	a := RemoteAddr{Addr: r.Addr + off, RKey: r.RKey}
	if off > r.Length && r.Length != 0 {
		a.outside = 1
	}
	return a
}

// RemoteAddr is where an RDMA or atomic operation reads or writes.
type RemoteAddr struct {
	Addr    uint64
	RKey    uint32
	outside uint32 // not 0 for an address of RemoteMemory.At beyond the end
}

func (r *RemoteAddr) outsideError() error {
	return &ArgError{Arg: "Remote", Got: fmt.Sprintf("RemoteMemory.At beyond the end, %#x", r.Addr),
		Want: "an offset of at most RemoteMemory.Length"}
}

// explainDereg names the windows that hold an MR. mlx5 returns EBUSY, SoftRoCE EINVAL.
func (mr *MR) explainDereg(err error) error {
	if mr.access&MWBind != 0 && (errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EINVAL)) {
		return &BusyError{Object: mr.String(), Children: []string{"memory windows bound to it"}}
	}
	return err
}

// Close deregisters the memory, and frees or unpins it. While a memory window is bound to it, it
// fails with a *BusyError.
//
// C: ibv_dereg_mr(3).
func (mr *MR) Close() error {
	return mr.node.close(func() error {
		mr.pd.dev.holdCompletions()
		if err := mr.deregister(); err != nil {
			return mr.explainDereg(err)
		}
		mr.buf = nil
		mr.pin.Unpin()
		return nil
	}, func() error { return mr.mem.Free() })
}
