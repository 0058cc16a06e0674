package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// optionSamples set each field of Options.
var optionSamples = map[string]any{
	"PortSpace": PortSpaceUDP, "PrivateData": []byte("mine"), "PD": new(ibv.PD), "SendCQ": new(ibv.CQ),
	"RecvCQ": new(ibv.CQ), "CQ": &ibv.CQOptions{}, "QP": ibv.QPOptions{MaxSendWR: 1},
	"Use":                func(*ibv.Device, *Options) error { return nil },
	"Prepare":            func(*Conn) error { return nil },
	"Confirm":            func(*Conn) error { return nil },
	"Failed":             func(*Conn, error) {},
	"ResponderResources": 1, "InitiatorDepth": 1, "RetryCount": 1, "RNRRetryCount": 1, "OwnRNRRetryCount": 1,
	"Access": ibv.AccessNone, "TOS": uint8(32), "AckTimeout": time.Second, "ReuseAddr": true, "AFOnly": true,
	"LocalAddr": netip.MustParseAddrPort("127.0.0.1:0"), "Timeout": time.Second, "Backlog": 1,
}

// TestOptionsOfCalls: every field of Options is in the table, and one that is set applies or is an error that names it,
// before anything else is tried.
func TestOptionsOfCalls(t *testing.T) {
	var table []string
	for _, u := range new(Options).uses() {
		table = append(table, u.field)
		if u.set {
			t.Errorf("%s is set in the zero value", u.field)
		}
	}
	var names []string
	for i := range reflect.TypeFor[Options]().NumField() {
		names = append(names, reflect.TypeFor[Options]().Field(i).Name)
	}
	slices.Sort(names)
	if slices.Sort(table); !slices.Equal(names, table) {
		t.Errorf("the table has\n%q, want\n%q", table, names)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	connections := []string{"Confirm", "ResponderResources", "InitiatorDepth", "RetryCount", "RNRRetryCount",
		"OwnRNRRetryCount", "Access", "AckTimeout"}
	for name, value := range optionSamples {
		for _, ps := range []PortSpace{PortSpaceTCP, PortSpaceUDP} {
			o := &Options{PortSpace: ps}
			reflect.ValueOf(o).Elem().FieldByName(name).Set(reflect.ValueOf(value))
			_, dial := Dial(ended, "127.0.0.1:1", o)
			_, addr := DialAddr(ended, netip.MustParseAddrPort("127.0.0.1:1"), o)
			_, listen := Listen(ended, "no port", o)
			only := ps == PortSpaceUDP && slices.Contains(connections, name)
			for _, c := range []struct {
				call    string
				err     error
				refused bool
			}{
				{"Dial", dial, only || name == "AFOnly" || name == "Backlog"},
				{"DialAddr", addr, only || name == "AFOnly" || name == "Backlog"},
				{"Listen", listen, only || name == "LocalAddr" || name == "Confirm" || name == "RetryCount"},
			} {
				var arg *ibv.ArgError
				if got := errors.As(c.err, &arg) && arg.Arg == name; got != c.refused {
					t.Errorf("%s, %v, with %s: %v; refused %v, want %v", c.call, ps, name, c.err, got, c.refused)
				}
			}
		}
	}
}

// TestRXE_CM_OptionsOfAccept: Accept takes what Listen takes, and refuses what only Dial has.
func TestRXE_CM_OptionsOfAccept(t *testing.T) {
	l := server(t, &Options{Backlog: 4, ReuseAddr: true})
	for name, value := range map[string]any{"Backlog": 4, "ReuseAddr": true, "PortSpace": PortSpaceTCP,
		"RetryCount": 1, "LocalAddr": optionSamples["LocalAddr"], "Confirm": optionSamples["Confirm"],
		"PortSpace of another": PortSpaceUDP} {
		field := name
		if name == "PortSpace of another" {
			field = "PortSpace"
		}
		o := new(Options)
		reflect.ValueOf(o).Elem().FieldByName(field).Set(reflect.ValueOf(value))
		dialed := make(chan error, 1)
		go func() {
			c, err := Dial(timeout(t), l.Addr().String(), nil)
			if err == nil {
				err = c.Close()
			}
			dialed <- err
		}()
		r := must(l.Next(timeout(t)))(t)
		c, err := r.Accept(timeout(t), o)
		if err == nil {
			err = c.Close()
		}
		wrong := field != "Backlog" && field != "ReuseAddr" && name != "PortSpace"
		var arg *ibv.ArgError
		if is := errors.As(err, &arg) && arg.Arg == field; is != wrong || !wrong && err != nil {
			t.Errorf("Accept with %s: %v", name, err)
		}
		if err := <-dialed; (err != nil) != wrong {
			t.Errorf("the dial while Accept has %s: %v", name, err)
		}
	}
}
