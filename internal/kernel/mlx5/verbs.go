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
	v := &Verbs{root: root, live: root.Live(), openFile: openFile, netlink: nldev.Devices,
		devices: make(map[facts]handle)}
	v.steering.v = v
	return v
}

// Rings returns what the direct data path takes from it.
func (v *Verbs) Rings() *Rings {
	return &Rings{v: v, devX: devX{v}, mkeys: mkeys{v: v}, matchers: matchers{v}, scheduler: scheduler{v},
		directRules: directRules{v: v}}
}

// Rings has what is mlx5's own: the rings of the objects of Verbs, and more objects.
type Rings struct {
	v *Verbs
	control.NoExtensions
	mkeys
	devX
	matchers
	scheduler
	directRules
}

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
