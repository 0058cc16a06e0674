package mlx5dv

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// DevXEvents delivers events of the device to the program: those of objects of DevX, and those of
// the device itself. It belongs to its Device and is safe for concurrent use; one goroutine at a
// time reads, on Go's netpoller.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_devx_event_channel.
type DevXEvents struct {
	node
	omit   bool
	reader *pollfd.Reader
}

// DevXEvent is an event.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_devx_async_event_hdr.
type DevXEvent struct {
	Cookie uint64 // of the subscription
	Data   []byte // the event queue entry, 64 bytes; nil if it was omitted
}

// eventEntry is the size of an event queue entry.
const eventEntry = 64

// CreateDevXEvents makes a channel of events. With omitData an event is its cookie alone, and unread events with the
// same cookie are one event.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_devx_create_event_channel(3), of libmlx5 v25.
func CreateDevXEvents(dev *ibv.Device, omitData bool) (*DevXEvents, error) {
	c, e := begin(dev, "mlx5dv create devx events"), &DevXEvents{omit: omitData}
	return create(c, e, &e.node, "devx events", func() (uintptr, error) {
		var flags uint32
		if omitData {
			flags = abi.MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA
		}
		h, fd, err := c.lib.DevXCreateEventChannel(c.handle, flags)
		if err != nil {
			return 0, explainDevX(dev, err)
		}
		if e.reader, err = pollfd.NewReader(fd, "mlx5dv devx events"); err != nil {
			_ = c.lib.DevXDestroyEventChannel(h)
		}
		return h, err
	})
}

// Subscribe has events of the given types delivered, with cookie. obj is the object that they are
// about, nil for those of the device.
//
// C: mlx5dv_devx_subscribe_devx_event(3).
func (e *DevXEvents) Subscribe(obj *DevXObject, cookie uint64, types ...EventType) error {
	return e.subscribe("mlx5dv subscribe devx event", obj, func(c *call, h uintptr) error {
		if len(types) == 0 {
			return &ibv.ArgError{Arg: "types", Got: "none", Want: "at least one type of event"}
		}
		nums := make([]uint16, len(types))
		for i, t := range types {
			nums[i] = uint16(t)
			if slices.Contains(types[:i], t) {
				return &ibv.ArgError{Arg: "types", Got: t.String() + " twice", Want: "each type once"}
			}
		}
		return c.lib.DevXSubscribe(e.handle, h, nums, cookie)
	})
}

// SubscribeFD has each event of a type signal an eventfd(2) instead.
//
// C: mlx5dv_devx_subscribe_devx_event_fd(3).
func (e *DevXEvents) SubscribeFD(fd int, obj *DevXObject, t EventType) error {
	return e.subscribe("mlx5dv subscribe devx event fd", obj, func(c *call, h uintptr) error {
		if fd < 0 || int(int32(fd)) != fd {
			return &ibv.ArgError{Arg: "fd", Got: fmt.Sprint(fd), Want: "the descriptor of an eventfd"}
		}
		return c.lib.DevXSubscribeFD(e.handle, fd, h, uint16(t))
	})
}

func (e *DevXEvents) subscribe(op string, obj *DevXObject, do func(c *call, obj uintptr) error) error {
	c := e.begin(op)
	return c.do(func() error {
		var h uintptr
		if obj != nil {
			if err := c.use(&obj.node, "obj"); err != nil {
				return err
			}
			h = obj.handle
		}
		return explainDevX(e.dev, do(c, h))
	})
}

// Read waits for an event.
//
// C: mlx5dv_devx_get_event(3).
func (e *DevXEvents) Read(ctx context.Context) (v DevXEvent, err error) {
	const cookie = 8
	b := make([]byte, cookie+eventEntry)
	if e.omit {
		b = b[:cookie]
	}
	n := 0
	err = e.do("mlx5dv read devx event", func() error {
		return e.reader.Read(ctx, func() (err error) {
			n, err = e.lib.DevXGetEvent(e.handle, b)
			return err
		})
	})
	if err != nil {
		return v, err
	}
	v.Cookie = binary.NativeEndian.Uint64(b)
	if n > cookie {
		v.Data = b[cookie:n]
	}
	return v, nil
}

// Close ends all subscriptions. Read of other goroutines returns ibv.ErrClosed.
//
// C: mlx5dv_devx_destroy_event_channel(3).
func (e *DevXEvents) Close() error {
	e.reader.Close()
	return e.destroy(e.lib.DevXDestroyEventChannel)
}
