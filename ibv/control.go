package ibv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/secure"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// ControlEnv overrides ControlAuto: "library", "native" or "auto". Programs that are setuid, setgid or have file
// capabilities ignore it.
const ControlEnv = level.ControlEnv

// controls is the choice of this process.
var controls struct {
	sync.Mutex
	want ControlPath
	used bool // devices were listed with it
}

// UseControl sets the control path of the devices that are opened from now on, in place of ControlAuto and ControlEnv.
// It has to be called before the first call that lists or opens devices, also of package rdmacm; later the error is an
// *ArgError unless nothing changes.
func UseControl(c ControlPath) error {
	const op = "use control"
	if c > ControlNative {
		return &OpError{Op: op, Err: &ArgError{Arg: "ControlPath", Got: c.String(),
			Want: "ControlAuto, ControlLibrary or ControlNative"}}
	}
	controls.Lock()
	defer controls.Unlock()
	if controls.used && controls.want != c {
		return &OpError{Op: op, Err: &ArgError{Arg: "ControlPath", Got: c.String() + ", after devices were listed",
			Want: "a call before the first device is listed or opened"}}
	}
	controls.want = c
	return nil
}

// chooseControl returns the control path to use, and the reason.
func chooseControl(want ControlPath, env string) (ControlPath, string, error) {
	if want != ControlAuto {
		return want, "asked for", nil
	}
	switch env {
	case "", "auto":
		return ControlAuto, "", nil
	case "library":
		want = ControlLibrary
	case "native":
		want = ControlNative
	default:
		return 0, "", &ArgError{Arg: "environment " + ControlEnv, Got: env, Want: "library, native or auto"}
	}
	return want, ControlEnv + "=" + env, nil
}

// verbs is a control path.
type verbs struct {
	control.Verbs
	native bool                         // no C library is used
	why    string                       // it was chosen
	mlx5   func() (control.MLX5, error) // of its mlx5 devices
	known  sync.Map                     // *lasting by the handle of a device

	checkProviders func() error // before it lists devices
}

// paths returns the control paths of this process in the order in which they are asked for a device, at least one.
var paths = sync.OnceValues(func() ([]*verbs, error) {
	p, err := choosePaths()
	if err == nil {
		level.NoteControl(describePaths(p))
	}
	return p, err
})

// describePaths returns the text of loader.Report.
func describePaths(p []*verbs) string {
	var text []string
	for _, v := range p {
		name := "library"
		if v.native {
			name = "native"
		}
		text = append(text, name+": "+v.why)
	}
	return strings.Join(text, "; ")
}

func choosePaths() ([]*verbs, error) {
	controls.Lock()
	controls.used = true
	want := controls.want
	controls.Unlock()
	want, why, err := chooseControl(want, secure.Getenv(ControlEnv))
	if err != nil {
		return nil, &OpError{Op: "list devices", Err: err}
	}
	if want == ControlAuto && static {
		want, why = ControlNative, "this program is static"
	}
	if want == ControlNative {
		v, err := native(why)
		if err != nil {
			return nil, err
		}
		return []*verbs{v}, nil
	}
	lib, err := library()
	if want == ControlLibrary {
		if err != nil {
			return nil, err
		}
		lib.why = why
		return []*verbs{lib}, nil
	}
	if err != nil {
		v, bad := native("there is no usable libibverbs: " + err.Error())
		if bad != nil || !v.serves() {
			return nil, err
		}
		return []*verbs{v}, nil
	}
	lib.why = "libibverbs lists the device"
	if v, bad := native("libibverbs does not list the device"); bad == nil {
		return []*verbs{lib, v}, nil
	}
	return []*verbs{lib}, nil
}

// firstPath returns the control path of what concerns no device.
func firstPath() (*verbs, error) {
	p, err := paths()
	if err != nil {
		return nil, err
	}
	return p[0], nil
}

// serves reports whether the control path has a device.
func (v *verbs) serves() bool {
	any := false
	_ = v.eachDevice(func(DeviceInfo, uintptr) (bool, error) {
		any = true
		return false, nil
	})
	return any
}

// eachDevice calls f for each device of this host and the control path to open it by, until f returns false. Handles
// are valid only within f.
func eachDevice(f func(v *verbs, d DeviceInfo, handle uintptr) (bool, error)) error {
	p, err := paths()
	if err != nil {
		return err
	}
	var seen []string
	for i, v := range p {
		if i > 0 && !others(seen) {
			break
		}
		more := true
		err := v.eachDevice(func(d DeviceInfo, h uintptr) (bool, error) {
			if slices.Contains(seen, d.Name) {
				return true, nil
			}
			seen = append(seen, d.Name)
			var err error
			more, err = f(v, d, h)
			return more, err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// others reports whether the kernel has a device that is not in names.
func others(names []string) bool {
	all, _ := sysfs.DefaultRoot().DeviceNames()
	return slices.ContainsFunc(all, func(n string) bool { return !slices.Contains(names, n) })
}

// ControlPath returns what creates, changes and destroys the objects of the device, and why it was selected.
func (d *Device) ControlPath() (ControlPath, string) {
	if d.v.native {
		return ControlNative, d.v.why
	}
	return ControlLibrary, d.v.why
}

// needLibrary returns the error for a feature that the native control path does not have, nil on the other.
func (v *verbs) needLibrary(feature string) error {
	if !v.native {
		return nil
	}
	return &UnsupportedError{Feature: feature, Need: "libibverbs: " + ControlEnv + "=library",
		Have: "the native control path (" + v.why + ")"}
}

// explainNative returns why the native control path lacks a feature, if err says that it does.
func explainNative(err error, feature string) error {
	if !errors.Is(err, control.ErrNotNative) {
		return err
	}
	list, _ := paths()
	for _, v := range list {
		if v.native {
			return v.needLibrary(feature)
		}
	}
	return err
}

// cmPath returns the control path of rdma_cm: the first one that has a device. The devices of its IDs have the same.
var cmPath = sync.OnceValues(func() (*verbs, error) {
	p, err := paths()
	if err != nil {
		return nil, err
	}
	for _, v := range p {
		if v.serves() {
			return v, nil
		}
	}
	return p[0], nil
})

// explainType returns why a QP of a type cannot be created.
func (d *Device) explainType(err error, t QPType) error {
	if t == RawPacket && errors.Is(err, syscall.EPERM) {
		return explainRaw(err)
	}
	if e := d.v.needLibrary("a QP of type " + t.String()); e != nil && unsupported(err) {
		return e
	}
	return err
}

// lacks returns the error for a verb that the control path does not have: on the library path what the feature needs,
// and what to use instead.
func (v *verbs) lacks(feature, need, instead string) error {
	if err := v.needLibrary(feature); err != nil {
		return err
	}
	return &UnsupportedError{Feature: feature, Need: need, Have: fmt.Sprintf("version %q", v.Version()) + instead}
}

// explainLack returns the error of a call that the library, or the provider and the device, may not have. instead says
// what to do without it; it is "" or begins with "; ".
func (d *Device) explainLack(err error, feature, library, need, instead string) error {
	if errors.Is(err, control.ErrNoOp) {
		return d.v.lacks(feature, library, instead)
	}
	return explainUnsupported(err, feature, need, d.Name()+" without it"+instead)
}

// explainFrames explains a refusal of a feature for frames. lack is the error of a device without it.
func (v *verbs) explainFrames(err error, feature string, lack UnsupportedError) error {
	switch {
	case errors.Is(err, control.ErrNoOp):
		return v.lacks(feature, "libibverbs of rdma-core", "")
	case unsupported(err):
		return &lack
	case errors.Is(err, syscall.EPERM):
		return explainRaw(err)
	}
	return err
}
