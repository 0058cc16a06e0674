package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// TestOptionsBad refuses what no device can do, before anything is looked up.
func TestOptionsBad(t *testing.T) {
	for name, o := range map[string]*Options{
		"Backlog":        {Backlog: math.MaxInt},
		"Backlog: got":   {Backlog: -1},
		"Timeout":        {Timeout: -time.Second},
		"AckTimeout":     {AckTimeout: 3 * time.Hour},
		"AckTimeout: ns": {AckTimeout: 31},
		"RetryCount":     {RetryCount: 8},
		"RNRRetryCount":  {RNRRetryCount: 254},
		"InitiatorDepth": {InitiatorDepth: 255},
		"PortSpace":      {PortSpace: 7},
		"Access":         {Access: ibv.AccessNone | ibv.RemoteRead},
	} {
		name, _, _ = strings.Cut(name, ":")
		_, dial := Dial(context.Background(), "127.0.0.1:1", o)
		_, listen := Listen(context.Background(), "127.0.0.1:0", o)
		_, dialAddr := DialAddr(context.Background(), netip.MustParseAddrPort("127.0.0.1:1"), o)
		for what, err := range map[string]error{"dial": dial, "dial address": dialAddr, "listen": listen} {
			var arg *ibv.ArgError
			if !errors.As(err, &arg) || arg.Arg != name || !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s with %+v: %v", what, o, err)
			}
		}
	}
	for _, o := range []*Options{nil, {}, {Backlog: maxBacklog, Timeout: math.MaxInt64, AckTimeout: ibv.None,
		RetryCount: ibv.None, RNRRetryCount: ibv.None, Access: ibv.AccessNone}} {
		if o != nil {
			if err := o.check(); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]int{1: 1, time.Millisecond: 1, time.Millisecond + 1: 2,
		5 * time.Second: 5000, math.MaxInt64: math.MaxInt32, math.MaxInt32 * time.Millisecond: math.MaxInt32} {
		if got, err := millis(d); got != want || err != nil {
			t.Errorf("%v is %d ms, want %d: %v", d, got, want, err)
		}
	}
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		var arg *ibv.ArgError
		if _, err := millis(d); !errors.As(err, &arg) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func TestPathLimits(t *testing.T) {
	good := Path{FlowLabel: 1<<20 - 1, SL: 15, MTU: 63, Rate: 63, PacketLifeTime: 63}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, p := range map[string]Path{"FlowLabel": {FlowLabel: 1 << 20}, "SL": {SL: 16}, "MTU": {MTU: 64},
		"Rate": {Rate: 64}, "PacketLifeTime": {PacketLifeTime: 64}} {
		var arg *ibv.ArgError
		if err := p.check(); !errors.As(err, &arg) || arg.Arg != name {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestRejectErrorData(t *testing.T) {
	for data, want := range map[string]string{
		"":                                      "",
		"\x00\x00":                              "",
		"not today\x00\x00\x00":                 `; private data "not today"`,
		"zwölf\nÄpfel":                          `; private data "zwölf\nÄpfel"`,
		"\x01\x02\xff\x00":                      "; private data 0102ff",
		strings.Repeat("x", 148):                `; private data "` + strings.Repeat("x", 64) + `"… (148 bytes)`,
		strings.Repeat("ä", 40):                 `; private data "` + strings.Repeat("ä", 32) + `"… (80 bytes)`,
		string(bytes.Repeat([]byte{0xfe}, 100)): "; private data " + strings.Repeat("fe", 64) + "… (100 bytes)",
	} {
		err := (&RejectError{Reason: RejectConsumer, PrivateData: []byte(data)}).Error()
		if !strings.Contains(err, "(reason 28)") || !strings.HasSuffix(err, "see the private data"+want) {
			t.Errorf("with %q: %s", data, err)
		}
	}
}

// TestAcceptPassesOn: who was told that a handshake has ended, and returns with a connection, tells the next one: it
// may have seen no room, while requests wait.
func TestAcceptPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{requests: make(chan *Request, 1), ready: make(chan accepted, 1), ended: make(chan struct{}, 1)}
		l.wake()
		go func() {
			if c, err := l.Accept(context.Background()); c == nil || err != nil {
				t.Errorf("accepted %v, %v", c, err)
			}
		}()
		synctest.Wait() // until it sleeps
		l.ready <- accepted{conn: &Conn{}}
		synctest.Wait()
		if len(l.ended) != 1 {
			t.Error("the next one sleeps on")
		}
	})
}

// TestNone: in every option whose 0 means a default, None is none, and other negative values are refused.
func TestNone(t *testing.T) {
	param := func(o *Options) abi.RDMAConnParam { return o.param(0, false).toC() }
	for name, c := range map[string]struct {
		set         func(o *Options, v int)
		get         func(o *Options) int
		usual, none int
	}{
		"ResponderResources": {func(o *Options, v int) { o.ResponderResources = v },
			func(o *Options) int { return int(param(o).ResponderResources) }, abi.RDMA_MAX_RESP_RES, 0},
		"InitiatorDepth": {func(o *Options, v int) { o.InitiatorDepth = v },
			func(o *Options) int { return int(param(o).InitiatorDepth) }, abi.RDMA_MAX_INIT_DEPTH, 0},
		"RetryCount": {func(o *Options, v int) { o.RetryCount = v },
			func(o *Options) int { return int(param(o).RetryCount) }, 7, 0},
		"RNRRetryCount": {func(o *Options, v int) { o.RNRRetryCount = v },
			func(o *Options) int { return int(param(o).RNRRetryCount) }, 7, 0},
		"AckTimeout": {func(o *Options, v int) { o.AckTimeout = time.Duration(v) },
			func(o *Options) int { // that of the path, unless it is set
				if code, _ := o.ackTimeout(); o.AckTimeout != 0 {
					return int(code)
				}
				return -1
			}, -1, 0},
	} {
		for v, want := range map[int]int{0: c.usual, ibv.None: c.none} {
			o := new(Options)
			if c.set(o, v); o.check() != nil || c.get(o) != want {
				t.Errorf("%s %d becomes %d, want %d: %v", name, v, c.get(o), want, o.check())
			}
		}
		for _, v := range []int{-2, -1000} {
			o := new(Options)
			c.set(o, v)
			var arg *ibv.ArgError
			if err := o.check(); !errors.As(err, &arg) || arg.Arg != name || !strings.HasPrefix(arg.Got, "-") ||
				!strings.Contains(arg.Want, "None") {
				t.Errorf("%s %d: %v", name, v, err)
			}
			if name == "AckTimeout" {
				continue
			}
			for call, err := range map[string]error{"connect": o.param(0, false).check(),
				"bring up": new(ID).BringUp(new(ibv.QP), o.param(0, false))} {
				if !errors.As(err, &arg) || arg.Arg != name {
					t.Errorf("%s with %s %d: %v", call, name, v, err)
				}
			}
		}
	}
	// None has no meaning for these.
	for name, o := range map[string]*Options{"Timeout": {Timeout: ibv.None}, "Backlog": {Backlog: ibv.None}} {
		var arg *ibv.ArgError
		if err := o.check(); !errors.As(err, &arg) || arg.Arg != name {
			t.Errorf("%s None: %v", name, err)
		}
	}
}
