package mlx5dv

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/libmlx5"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// verbs is what package ibv shows this module only.
var verbs = ibv.Internal.Show(friend.Mine)

func opError(op, object string, err error) error {
	var e *ibv.OpError
	if errors.As(err, &e) && e.Op == op {
		return err
	}
	return &ibv.OpError{Op: op, Object: object, Err: err}
}

// enter keeps dev open and makes sure that it is libmlx5's.
func enter(dev *ibv.Device, op string) (lib libmlx5.Lib, handle uintptr, leave func(), err error) {
	if dev == nil {
		return lib, 0, nil, opError(op, "", &ibv.ArgError{Arg: "ctx", Got: "nil", Want: "an open device"})
	}
	h, leave, err := verbs.Enter(dev, op)
	if err != nil {
		return lib, 0, nil, err
	}
	lib, ok, err := supported(h)
	if err == nil && !ok {
		have := dev.Name() + ", which is another provider's"
		err = &ibv.UnsupportedError{Feature: op, Need: "a device of libmlx5", Have: have}
	}
	if err != nil {
		leave()
		return lib, 0, nil, opError(op, dev.Name(), err)
	}
	return lib, h, leave, nil
}

// supported opens libmlx5 and reports whether it drives the device.
func supported(handle uintptr) (lib libmlx5.Lib, ok bool, err error) {
	if lib, err = libmlx5.Open(); err == nil {
		ok, err = lib.IsSupported(handle)
	}
	return lib, ok, err
}

// memory is what libmlx5 has allocated at p; nil if there is nothing.
func memory(p uintptr, n uint64) []byte { return cmem.Slice[byte](p, int(n)) }
