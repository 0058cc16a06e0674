package mlx5

import (
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/kernel/nldev"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// handle names an object.
type handle = control.Handle

// Verbs is the control path of mlx5 devices through the kernel. It is safe for concurrent use.
type Verbs struct {
	control.NoVerbs
	root  sysfs.Root
	table table

	openFile func(root sysfs.Root, d *device) (*uverbs.File, error)
	netlink  func() (map[string]nldev.Device, error)

	live    bool // root is the kernel's
	mu      sync.Mutex
	devices map[facts]handle
	last    listing
}

// listing has devices, and the entries of sysfs when they were read. A change shows there, because no entry of sysfs
// has the inode of an earlier one.
type listing struct {
	files, names []sysfs.Entry // of device files, of devices
	devices      []facts
}

// table finds objects by their handles, which are used once.
type table struct {
	mu      sync.RWMutex
	last    handle
	objects map[handle]any
}

// object is the part that all objects have.
type object struct {
	c      *context
	handle handle
}

func (o *object) context() *context { return o.c }

func (o *object) setHandle(h handle) { o.handle = h }

// owned is an object of a context, or a context.
type owned interface{ context() *context }

// facts describe a device of the list.
type facts struct {
	name   string
	node   uverbs.Node
	guid   uint64
	typ    int32     // C: enum ibv_node_type; -1 if it is not known
	index  int       // the kernel's, -1 if it is not known
	inodes [2]uint64 // of its entries in sysfs: a device that comes again is another one
}

// device is a device of the list.
type device struct {
	facts
	forms   uverbs.Forms
	checked atomic.Bool // its versions
	found   atomic.Bool // its file
}

// context is an open device.
type context struct {
	v      *Verbs
	handle handle
	dev    *device
	devH   handle

	file   *uverbs.File
	core   uverbs.Context
	info   contextInfo
	maxCQE func() (uint32, error)
	driver func() (*abi.MLX5IBQueryDeviceResp, error)

	memory   memory
	bars     bars
	events   events
	clocks   clocks
	login    login
	lastUIdx atomic.Uint32
	reserved reservedQPNs
}

func (c *context) context() *context { return c }

// Parts of what a context does.
type (
	queries   struct{ *context } // asks for the attributes of the device and its ports
	devX      struct{ *context } // sends commands to the firmware, and makes what they refer to
	steering  struct{ *context } // makes steering rules
	crypto    struct{ *context } // makes keys that encrypt
	scheduler struct{ *context } // shares bandwidth, and reserves numbers
)

// bar is a mapped page with registers.
type bar struct {
	mem     []byte
	at      int64  // in the device file
	page    uint32 // the kernel's number of the page
	handle  uint32 // the kernel's, if dynamic
	dynamic bool   // allocated by name
	taken   []bool // the registers of ThreadDomains
}

// bars are the registers of a context.
type bars struct {
	c *context

	mu     sync.Mutex
	common *bar         // rung by CQs, and by QPs that have no register of their own
	static map[int]*bar // by index, of a kernel that makes them with the context
	own    []*bar       // with registers of ThreadDomains
	nc     *bar         // not write combining; nil until a program wants it
	wc     int          // pages of mapAllocWC that were asked for
}

// register is where a QP rings.
type register struct {
	bar    *bar
	slot   int    // in bar.taken; -1 if others use it too
	offset int    // in bar.mem
	number uint32 // the kernel's, if the bar is not dynamic
}

// events counts the events of a context's objects. An object ends when as many were acknowledged as the kernel has
// reported.
type events struct {
	mu      sync.Mutex
	changed sync.Cond
	readers int // that may have read an event and not counted it
}

// count is of one kind of an object's events. It is guarded by events.mu.
type count struct{ read, acked uint32 }

// login is an application's at the device, for wrapped keys.
type login struct {
	mu   sync.Mutex
	made *obj   // nil if there is none
	id   uint32 // the device's
}

// clocks are pages that the device and the kernel write. They are mapped when they are first read.
type clocks struct {
	mu         sync.Mutex
	core, info []byte
}

// memory is where a context's rings are. Small rings share mappings, because the kernel limits how many a process has.
// No two rings share a page, because the kernel pins pages. Doorbell records do.
type memory struct {
	mu      sync.Mutex
	chunks  []*chunk
	records []record // free ones
}

// chunk is a mapping.
type chunk struct {
	mem   *dma.Mem
	used  []bool // by page
	free  int    // pages
	low   int    // all pages below are used
	dirty int    // the pages below were used once
}

// ring is memory of whole pages.
type ring struct {
	chunk *chunk
	page  int
	bytes []byte
}

// record is a doorbell record: two counters, big endian.
type record []byte

// kernelObject is an object that the kernel has a number for.
type kernelObject struct {
	object
	number uint32
}

// obj is an object of DevX that a command made.
type obj struct{ kernelObject }

// reservedQPNs are numbers that no QP gets. The device reserves them by the block.
type reservedQPNs struct {
	mu     sync.Mutex
	blocks []*reservedBlock
}

type reservedBlock struct {
	obj
	first uint32
	taken []bool
	next  int // which one is taken next; none is taken twice, because a peer may still use it
}
