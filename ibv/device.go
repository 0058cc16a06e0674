package ibv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/pollfd"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// Device is an open device.
//
// It belongs to the caller. All methods are safe for concurrent use. Close
// fails with a *BusyError while objects made from it are open.
//
// C: struct ibv_context.
type Device struct {
	node
	v       *verbs
	handle  uintptr // struct ibv_context *
	info    DeviceInfo
	table   ops.Table
	attr    DeviceAttr // read when the device was opened; limits do not change
	lent    bool       // librdmacm opened the device and will close it
	adopted bool       // another C library will close it
	noDevX  error      // why an old libmlx5 has opened the device without DevX, if it was asked for it
	async   *pollfd.Reader
	direct  direct
	covered uintptr // see cover

	keys        *control.Lack // see control.Context
	plainFields WCFields      // likewise

	elsewhere elsewhere
	sl        func() uint8 // of readServiceLevels, once

	// removed is noted by the first of: a call that fails because of it, the end of a completion channel,
	// EventDeviceFatal if AsyncEvent is called, and package rdmacm.
	removed failure

	objMu   sync.Mutex
	objects map[uintptr]any // *QP, *CQ, *SRQ by the address of the C object

	chMu    sync.Mutex
	channel *CompChannel // for CQs created without one; made on first use
}

func (v *verbs) openContext(d DeviceInfo, dev uintptr) (*Device, error) {
	h, noDevX, err := v.openHandle(dev)
	if err != nil {
		return nil, &OpError{Op: "open device", Object: d.Name, Err: explainOpen(d.Name, err)}
	}
	c, err := v.newContext(d, h)
	if err != nil {
		return nil, errors.Join(err, v.CloseDevice(h))
	}
	c.noDevX = noDevX
	return c, nil
}

// wrapContext returns the Device of a context that another function than openContext has opened.
func (v *verbs) wrapContext(h uintptr) (*Device, error) {
	d, err := v.describe(v.Context(h).Device)
	if err != nil {
		return nil, err
	}
	return v.newContext(d, h)
}

func (v *verbs) newContext(d DeviceInfo, h uintptr) (*Device, error) {
	spin.Prepare() // of all that posts and polls, nothing has begun yet
	c := &Device{v: v, handle: h, info: d, objects: make(map[uintptr]any), removed: newFailure()}
	is := v.Context(h)
	if is.Size == 0 && !v.native { // every release since 2013 has the extended ops
		return nil, &OpError{Op: "open device", Object: d.Name, Err: &UnsupportedError{
			Feature: "a context with extended verbs", Need: "libibverbs of rdma-core v15 or later",
			Have: "an older library"}}
	}
	level.Note(is.Size)
	known := v.lasting(is.Device)
	attr, err := known.attr.get(c.queryDevice)
	if err != nil {
		return nil, opError("query device", d.Name, err)
	}
	c.attr = *attr
	if !v.native {
		c.table = ops.Lookup(h)
	}
	c.keys, c.plainFields = is.Keys, WCFields(is.PlainFields)
	c.async = pollfd.Later(is.AsyncFD, "ibv_async")
	c.sl = sync.OnceValue(func() uint8 {
		mask, err := known.sl.get(c.readServiceLevels)
		if err != nil {
			return anyServiceLevel
		}
		return *mask
	})
	v.Watch(h, c.explain)
	c.cover()
	c.node.init("device", d.Name)
	life.Watch(c, &c.life)
	return c, nil
}

// Name returns the device's name, as in "mlx5_0".
func (d *Device) Name() string { return d.info.Name }

// GUID returns the node GUID.
func (d *Device) GUID() GUID { return d.info.GUID }

// Info returns the description of this device that Devices gives.
func (d *Device) Info() DeviceInfo { return d.info }

// NumCompVectors returns the number of completion vectors: CQOptions.CompVector must be less.
// It is 0 on a closed Device.
func (d *Device) NumCompVectors() int {
	n, _ := value(&d.node, "query device", func() (int, error) { return d.v.Context(d.handle).CompVectors, nil })
	return n
}

// Close closes the device. It fails with a *BusyError that counts the objects still open on it.
// A second call does nothing. Calls waiting in AsyncEvent return ErrClosed.
//
// The Device of a connection manager's ID stays open as long as the ID: there Close only
// reports what is open on it.
//
// C: ibv_close_device(3).
func (d *Device) Close() error {
	if d.lent {
		return d.closeLent()
	}
	return endDevice(d)
}

// endDevice closes the device, and the context unless another library does.
func endDevice(d *Device) error {
	return d.node.close(func() error {
		// No CQ is left, and none can be created now.
		if err := d.closeOwnChannel(); err != nil {
			return err
		}
		if err := errors.Join(d.freeRegisters(), d.uncover()); err != nil {
			return err
		}
		d.async.Close()
		d.v.Unwatch(d.handle)
		if d.adopted || d.lent {
			return nil
		}
		return d.v.CloseDevice(d.handle)
	})
}

// closeOwnChannel closes the channel that CreateCQ made for CQs without one.
func (d *Device) closeOwnChannel() error {
	d.chMu.Lock()
	defer d.chMu.Unlock()
	if d.channel == nil {
		return nil
	}
	if err := d.channel.Close(); err != nil {
		return err
	}
	d.channel = nil
	return nil
}

func (d *Device) ownChannel() (*CompChannel, error) {
	d.chMu.Lock()
	defer d.chMu.Unlock()
	if d.channel == nil {
		ch, err := d.newCompChannel()
		if err != nil {
			return nil, err
		}
		d.channel = ch
	}
	return d.channel, nil
}

func (d *Device) register(handle uintptr, obj any) {
	d.objMu.Lock()
	d.objects[handle] = obj
	d.objMu.Unlock()
}

func (d *Device) unregister(handle uintptr) {
	d.objMu.Lock()
	delete(d.objects, handle)
	d.objMu.Unlock()
}

func (d *Device) object(handle uintptr) any {
	d.objMu.Lock()
	defer d.objMu.Unlock()
	return d.objects[handle]
}

// all returns the objects of the Device that events can be about.
func (d *Device) all() []any {
	d.objMu.Lock()
	defer d.objMu.Unlock()
	return slices.Collect(maps.Values(d.objects))
}

// activePort returns the first active port, or 0 and the states of all ports.
func (d *Device) activePort() (uint8, string) {
	var states string
	for p := 1; p <= int(d.attr.PhysPortCnt); p++ {
		a, err := d.QueryPort(uint8(p))
		switch {
		case err != nil:
			states += fmt.Sprintf("port %d: %v ", p, err)
		case a.State.active():
			return uint8(p), ""
		default:
			states += fmt.Sprintf("port %d %v ", p, a.State)
		}
	}
	if states == "" {
		return 0, "no port"
	}
	return 0, states[:len(states)-1]
}

// QueryDevice returns the identity and the limits of the device. Ex has the extended
// attributes, if the library and the provider know them.
//
// C: ibv_query_device(3), ibv_query_device_ex(3).
func (d *Device) QueryDevice() (*DeviceAttr, error) {
	return value(&d.node, "query device", d.queryDevice)
}

func (d *Device) queryDevice() (*DeviceAttr, error) {
	ex := new(abi.DeviceAttrEx)
	err := d.v.QueryDeviceEx(d.handle, ex)
	if err == nil {
		a := deviceAttrFromC(&ex.OrigAttr)
		a.Ex = deviceAttrExFromC(ex)
		return a, nil
	}
	if !unsupported(err) {
		return nil, err
	}
	base := new(abi.DeviceAttr)
	if err := d.v.QueryDevice(d.handle, base); err != nil {
		return nil, err
	}
	return deviceAttrFromC(base), nil
}

// usedUp adds to a refusal for want of memory how many such objects the device has. The refusal may be about either.
func (d *Device) usedUp(err error, objects string, most int) error {
	var limit *LimitError
	if most <= 0 || !errors.Is(err, syscall.ENOMEM) || errors.As(err, &limit) {
		return err
	}
	return fmt.Errorf("%w; or all programs together use the %d %s of %s", err, most, objects, d.Name())
}
