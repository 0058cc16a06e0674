package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/ibv"
)

// sample has a device of each kind: RoCE, InfiniBand, and one that could not be
// opened.
func sample() *report {
	return &report{Version: 1, Devices: []device{
		{
			Name: "rxe0", NodeGUID: "0000:0aff:fe08:0001", NodeType: "CA", Transport: "IB",
			SysImageGUID: "0000:0aff:fe08:0001",
			VendorID:     0xffffff, CompVectors: 2, known: true,
			Attributes: fields{{"max_qp", 1048560}, {"device_caps", "SRQResize|MemWindow"}},
			Extended:   fields{{"odp_general_caps", "0x0"}},
			Ports: []port{{
				Port: 1, State: "Active", PhysState: "LinkUp", LinkLayer: "Ethernet", MaxMTU: 4096, ActiveMTU: 1024,
				Rate: "2.5 Gb/s (1X SDR)", RateGbps: 2.5, Attributes: fields{{"gid_table_length", 1024}},
				GIDs: []gid{
					{0, "fe80::aff:fe08:1", "RoCEv2", "v0"},
					{1, "::ffff:10.8.0.1", "RoCEv2", "v0"},
				},
				PKeys: []pkey{{0, "0xffff"}},
			}},
		},
		{
			Name: "mlx5_0", NodeGUID: "b83f:d203:0011:2233", NodeType: "CA", Transport: "IB", Firmware: "28.39.1002",
			SysImageGUID: "b83f:d203:0011:2233", VendorID: 0x2c9, VendorPartID: 4129, CompVectors: 63, known: true,
			Attributes: fields{{"max_qp", 131072}},
			Ports: []port{{
				Port: 1, State: "Down", PhysState: "Polling", LinkLayer: "InfiniBand", MaxMTU: 4096, ActiveMTU: 4096,
				Rate: "400 Gb/s (4X NDR)", RateGbps: 400, LID: 0xffff, SMLID: 1, LMC: 3,
				GIDs:  []gid{{0, "fe80::b83f:d203:11:2233", "IB", ""}},
				PKeys: []pkey{{0, "0x7fff"}, {1, "0x8001"}},
			}},
		},
		{Name: "mlx5_1", NodeGUID: "b83f:d203:0011:2234", NodeType: "CA", Transport: "IB", Ports: []port{},
			Error: "open device mlx5_1: permission denied"},
	}}
}

var update = os.Getenv("UPDATE") != ""

func TestShow(t *testing.T) {
	for name, opt := range map[string]options{
		"short.txt": {},
		"long.txt":  {verbose: true},
		"names.txt": {list: true},
		"all.json":  {json: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := show(&out, sample(), opt); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name)
			if update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// Names come from outside: none of them may command the terminal.
func TestShow_Hostile(t *testing.T) {
	const hostile = "e\x1b[2J\x7f\u0085\u202e\U000e0001\n"
	r := &report{Devices: []device{{Name: hostile, Firmware: hostile, Error: hostile, known: true,
		Ports: []port{{GIDs: []gid{{0, "::1", "RoCEv2", hostile}}}}}}}
	for _, opt := range []options{{}, {verbose: true}, {list: true}, {json: true}} {
		var out bytes.Buffer
		if err := show(&out, r, opt); err != nil {
			t.Fatal(err)
		}
		for _, c := range out.String() {
			if !unicode.IsPrint(c) && c != '\n' {
				t.Errorf("%+v: %q in %q", opt, c, out.String())
			}
		}
		var back struct{ Devices []struct{ Name string } }
		if opt.json && (json.Unmarshal(out.Bytes(), &back) != nil || back.Devices[0].Name != hostile) {
			t.Errorf("another name in %s", out.String())
		}
	}
}

func TestFields_MarshalJSON(t *testing.T) {
	for _, tt := range []struct {
		fs   fields
		want string
	}{
		{nil, "{}"},
		{fields{{"b", 1}, {"a", `x"y`}}, `{"b":1,"a":"x\"y"}`},
	} {
		got, err := json.Marshal(tt.fs)
		if err != nil || string(got) != tt.want {
			t.Errorf("got %s %v, want %s", got, err, tt.want)
		}
	}
	if _, err := json.Marshal(fields{{"f", func() {}}}); err == nil {
		t.Error("a function was encoded")
	}
}

// brokenPipe fails after some bytes.
type brokenPipe struct{ left int }

var errBroken = errors.New("broken pipe")

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestShow_BrokenPipe(t *testing.T) {
	for _, opt := range []options{{}, {list: true}, {json: true}} {
		if err := show(&brokenPipe{5}, sample(), opt); !errors.Is(err, errBroken) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

func TestNoDevice(t *testing.T) {
	if err := noDevice("", nil); !errors.Is(err, ibv.ErrNoDevice) || !strings.Contains(err.Error(), "driver") {
		t.Error(err)
	}
	if err := noDevice("x", []ibv.DeviceInfo{{Name: "rxe0"}}); !errors.Is(err, ibv.ErrNoDevice) ||
		!strings.Contains(err.Error(), "rxe0") {
		t.Error(err)
	}
}

func TestRun_Usage(t *testing.T) {
	for args, want := range map[string]string{
		"rxe0":   "name a device with -d",
		"-i 0":   "-i 0: want 1 to 255",
		"-i 256": "-i 256",
		"-i -1":  "-i -1",
		"-z":     "-z",
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(args), &out, &errs); code != 2 || out.Len() > 0 ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"-h"}, &out, &errs); code != 0 || errs.Len() > 0 ||
		!strings.Contains(out.String(), "--verbose") {
		t.Errorf("-h: code %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
}
