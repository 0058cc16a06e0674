package rdma

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestNone: in every option whose 0 means a default, None is none, and other negative values are refused.
func TestNone(t *testing.T) {
	options := func(set func(o *Options, v int), get func(o *Options) int64) func(v int) (int64, error) {
		return func(v int) (int64, error) {
			o := new(Options)
			set(o, v)
			for _, c := range allCalls {
				if o.checkUses(c) != nil {
					continue
				}
				if err := o.check(c); err != nil {
					return 0, err
				}
			}
			return get(o), nil
		}
	}
	for name, c := range map[string]struct {
		usual, none int64
		with        func(v int) (int64, error)
	}{
		"KeepAlive": {15, 0, options(func(o *Options, v int) { o.KeepAlive = time.Duration(v) },
			func(o *Options) int64 { return int64(o.keepAliveTicks()) })},
		"Linger": {int64(link.LingerTime), None, options(func(o *Options, v int) { o.Linger = time.Duration(v) },
			func(o *Options) int64 { return int64(o.linger()) })},
		"AckTimeout": {0, ibv.None, options(func(o *Options, v int) { o.AckTimeout = time.Duration(v) },
			func(o *Options) int64 { return int64(o.cm().AckTimeout) })},
		"RetryCount": {0, ibv.None, options(func(o *Options, v int) { o.RetryCount = v },
			func(o *Options) int64 { return int64(o.cm().RetryCount) })},
		"Leases.MaxBytes": {1 << 30, None,
			options(func(o *Options, v int) { o.Leases = &LeaseOptions{MaxBytes: int64(v)} },
				func(o *Options) int64 { return newLeasing(o.Leases).opt.MaxBytes })},
		"Spin": {int64(100 * time.Microsecond), None, func(v int) (int64, error) {
			o := EngineOptions{Spin: time.Duration(v)}.withDefaults()
			return int64(o.Spin), o.check()
		}},
	} {
		for v, want := range map[int]int64{0: c.usual, None: c.none} {
			if got, err := c.with(v); err != nil || got != want {
				t.Errorf("%s %d becomes %d, want %d: %v", name, v, got, want, err)
			}
		}
		for _, v := range []int{-2, -1e9} {
			var arg *ibv.ArgError
			if _, err := c.with(v); !errors.As(err, &arg) || arg.Arg != name || !strings.HasPrefix(arg.Got, "-") ||
				!strings.Contains(arg.Want, "None") {
				t.Errorf("%s %d: %v", name, v, err)
			}
		}
	}
	// None has no meaning for these.
	for name, o := range map[string]*Options{"MaxMessage": {MaxMessage: None}, "Backlog": {Backlog: None},
		"Leases.MaxLeases":   {Leases: &LeaseOptions{MaxLeases: None}},
		"Leases.MaxDuration": {Leases: &LeaseOptions{MaxDuration: None}},
		"Leases.Grace":       {Leases: &LeaseOptions{Grace: None}}} {
		var arg *ibv.ArgError
		if err := o.check(callListen); !errors.As(err, &arg) || arg.Arg != name {
			t.Errorf("%s None: %v", name, err)
		}
	}
}
