package mlx5

import (
	"sync"

	"github.com/pureverbs/pureverbs/internal/control"
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

	checkFile func(root sysfs.Root, file string, driver int64) error
	openFile  func(root sysfs.Root, file string, driver uint32, forms *uverbs.Forms) (*uverbs.File, error)

	mu      sync.Mutex
	devices map[facts]handle
}

var (
	_ control.Verbs = (*Verbs)(nil)
	_ control.Rings = (*Rings)(nil)
)

// New returns the control path.
func New() *Verbs {
	return &Verbs{root: sysfs.DefaultRoot(), checkFile: uverbs.CheckVersions, openFile: uverbs.Open,
		devices: make(map[facts]handle)}
}

// Rings returns what the direct data path takes from it.
func (v *Verbs) Rings() *Rings { return &Rings{v} }

// Rings has the rings of the objects of Verbs.
type Rings struct{ v *Verbs }

// object is the part that all objects have.
type object struct {
	c      *context
	handle handle
}

func (o *object) context() *context { return o.c }

// owner returns the handle of the object's context.
func (o *object) owner() handle { return o.c.handle }

// Owner returns the context of an object.
func (v *Verbs) Owner(h handle) handle {
	o, _ := v.table.load(h)
	if o, ok := o.(interface{ owner() handle }); ok {
		return o.owner()
	}
	return 0
}

// Path returns "": there is no library.
func (v *Verbs) Path() string { return "" }

// Version returns "".
func (v *Verbs) Version() string { return "" }
