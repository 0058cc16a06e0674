package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/nldev"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

var (
	_ control.Verbs = (*Verbs)(nil)
	_ control.MLX5  = (*Rings)(nil)
)

// New returns the control path.
func New() *Verbs {
	root := sysfs.DefaultRoot()
	return &Verbs{root: root, live: root.Live(), openFile: openFile, netlink: nldev.Devices,
		devices: make(map[facts]handle)}
}

// Rings returns what the direct data path takes from it.
func (v *Verbs) Rings() *Rings { return &Rings{v: v} }

// Rings has what is mlx5's own: the rings of the objects of Verbs, and more objects. It has no MkeyCheck: the data path
// takes the errors of a signature from its CQs. Of direct rules it has the tables of level 0, whose matchers and rules
// are the kernel's. Only libmlx5 has other tables.
type Rings struct {
	v *Verbs
	control.NoExtensions
	control.NoMkeys
	control.NoDirectRules
}

// Owner returns the context of an object.
func (v *Verbs) Owner(h handle) handle {
	o, _ := v.table.load(h)
	if o, ok := o.(owned); ok {
		return o.context().handle
	}
	return 0
}

// Path returns "": there is no library.
func (v *Verbs) Path() string { return "" }

// Version returns "".
func (v *Verbs) Version() string { return "" }
