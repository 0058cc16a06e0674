package ibv

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// goldenEndpoint and its encodings are fixed for ever: peers of other releases
// read them.
func goldenEndpoint() Endpoint {
	return Endpoint{
		Type: RC, QPN: 0x000123, PSN: 0xabcdef, LID: 7,
		GID: GID{10: 0xff, 11: 0xff, 12: 10, 13: 8, 15: 1},
		MTU: MTU1024, QKey: 0x11111111, MaxDestRdAtomic: 16, MaxRdAtomic: 8,
	}
}

const (
	goldenText = "pvep1,type=RC,qpn=0x000123,psn=0xabcdef,lid=7,gid=::ffff:10.8.0.1,mtu=1024," +
		"qkey=0x11111111,dest_rd_atomic=16,rd_atomic=8"
	goldenJSON = `{"version":1,"type":"RC","qpn":291,"psn":11259375,"lid":7,"gid":"::ffff:10.8.0.1","mtu_bytes":1024,` +
		`"qkey":286331153,"dest_rd_atomic":16,"rd_atomic":8}`
	goldenHex = "50450102" + // 'P' 'E', version 1, RC
		"00000123" + "00abcdef" + "11111111" + // qpn, psn, qkey
		"0007" + "03" + "10" + "08" + "00" + // lid, mtu, dest_rd_atomic, rd_atomic, reserved
		"00000000000000000000ffff0a080001" // gid
)

func TestEndpoint_Golden(t *testing.T) {
	e, v2 := goldenEndpoint(), goldenEndpoint()
	v2.LID, v2.GIDType = 0, GIDTypeRoCEv2
	v1 := v2
	v1.GIDType = GIDTypeRoCEv1
	for _, c := range []struct {
		e               Endpoint
		text, json, hex string
	}{
		{e, goldenText, goldenJSON, goldenHex},
		// With the type of a GID: older releases read these, with another LID, which they do not use on RoCE.
		{v1, strings.Replace(goldenText, "lid=7", "lid=65521", 1), roceJSON(1),
			strings.Replace(goldenHex, "000703", "fff103", 1)},
		{v2, strings.Replace(goldenText, "lid=7", "lid=65522", 1), roceJSON(2),
			strings.Replace(goldenHex, "000703", "fff203", 1)},
	} {
		if b, err := c.e.MarshalText(); err != nil || string(b) != c.text {
			t.Errorf("text %s, %v", b, err)
		}
		if b, err := json.Marshal(c.e); err != nil || string(b) != c.json {
			t.Errorf("JSON %s, %v", b, err)
		}
		if b, err := c.e.MarshalBinary(); err != nil || hex.EncodeToString(b) != c.hex {
			t.Errorf("bytes %x, %v", b, err)
		}
		if fmt.Sprint(c.e) != c.text {
			t.Errorf("prints as %v", c.e)
		}
	}
}

func roceJSON(typ int) string {
	return strings.Replace(strings.TrimSuffix(goldenJSON, "}"), `"lid":7`, `"lid":0`, 1) +
		fmt.Sprintf(`,"gid_type":%d}`, typ)
}

// encodings are the three forms, each with its reader.
var encodings = []struct {
	name  string
	write func(Endpoint) ([]byte, error)
	read  func([]byte, *Endpoint) error
}{
	{"text", Endpoint.MarshalText, func(b []byte, e *Endpoint) error { return e.UnmarshalText(b) }},
	{"binary", Endpoint.MarshalBinary, func(b []byte, e *Endpoint) error { return e.UnmarshalBinary(b) }},
	{"json", Endpoint.MarshalJSON, func(b []byte, e *Endpoint) error { return e.UnmarshalJSON(b) }},
}

func TestEndpoint_RoundTrip(t *testing.T) {
	list := []Endpoint{
		goldenEndpoint(),
		{Type: UD, QPN: 1},
		{Type: RawPacket},
		{Type: RC, QPN: 5, GIDType: GIDTypeRoCEv1},
		{Type: UD, QPN: 5, GID: GID{15: 1}, GIDType: GIDTypeRoCEv2},
		{Type: RC, QPN: 5, LID: 0xfff0},
		{Type: RC, QPN: 5, LID: 0xfff3},
		{Type: Driver, QPN: max24, PSN: max24, LID: 0xffff, GID: GID{0: 0xfe, 1: 0x80, 15: 1}, MTU: MTU4096,
			QKey: ^uint32(0), MaxDestRdAtomic: 255, MaxRdAtomic: 255},
	}
	for _, typ := range []QPType{UC, XRCSend, XRCRecv} {
		for m := MTU(0); m <= MTU4096; m++ {
			list = append(list, Endpoint{Type: typ, QPN: 5, MTU: m})
		}
	}
	for _, enc := range encodings {
		for _, e := range list {
			b, err := enc.write(e)
			if err != nil {
				t.Errorf("%s of %v: %v", enc.name, e, err)
				continue
			}
			out := Endpoint{QPN: 99, LID: 99, MaxRdAtomic: 99}
			if err := enc.read(b, &out); err != nil || out != e {
				t.Errorf("%s %q comes back as %v, %v", enc.name, b, out, err)
			}
		}
	}
}

// What is written is what can be read: an endpoint out of range is neither.
func TestEndpoint_MarshalBad(t *testing.T) {
	for _, e := range []Endpoint{{}, {Type: 77}, {Type: RC, QPN: 1 << 24}, {Type: RC, PSN: 1 << 24}, {Type: RC, MTU: 6},
		{Type: 1 << 31}, {Type: RC, GIDType: 3}, {Type: RC, LID: 1, GIDType: GIDTypeRoCEv2}} {
		for _, enc := range encodings {
			b, err := enc.write(e)
			var bad *EndpointError
			if !errors.As(err, &bad) || b != nil {
				t.Errorf("%s of %+v is %q, %v", enc.name, e, b, err)
			}
		}
		_ = e.String() // must not panic
	}
}

func checkRefused(t *testing.T, name string, in []byte, read func([]byte, *Endpoint) error) {
	t.Helper()
	e := goldenEndpoint()
	err := read(in, &e)
	var bad *EndpointError
	switch {
	case err == nil:
		t.Errorf("%s: %.60q is taken as %v", name, in, e)
	case !errors.As(err, &bad) || !errors.Is(err, syscall.EINVAL):
		t.Errorf("%s: %.60q gives %T %v", name, in, err, err)
	case len(err.Error()) > 400:
		t.Errorf("%s: error of %d bytes", name, len(err.Error()))
	case e != goldenEndpoint():
		t.Errorf("%s: %.60q leaves %v", name, in, e)
	}
}

func TestEndpoint_TextBad(t *testing.T) {
	for _, s := range []string{
		"", "x", "pvep1", "pvep2" + goldenText[5:], "pvep1,", goldenText + ",", goldenText + ",x=1",
		goldenText + ",lid=7",
		"pvep1,type=RC,qpn=1", "pvep1,type=RC,psn=1", "pvep1,qpn=1,psn=1",
		"pvep1,type=rc,qpn=1,psn=1", "pvep1,type=,qpn=1,psn=1", "pvep1,type=QPType(77),qpn=1,psn=1",
		"pvep1,type=RC,qpn=-1,psn=1", "pvep1,type=RC,qpn=0x1000000,psn=1", "pvep1,type=RC,qpn=1,psn=16777216",
		"pvep1,type=RC,qpn=,psn=1",
		"pvep1,type=RC,qpn=1,psn=99999999999999999999999", "pvep1,type=RC,qpn=1,psn=1e3",
		"pvep1,type=RC,qpn=1,psn=1,lid=65536", "pvep1,type=RC,qpn=1,psn=1,gid=10.8.0.1",
		"pvep1,type=RC,qpn=1,psn=1,gid=",
		"pvep1,type=RC,qpn=1,psn=1,mtu=1500", "pvep1,type=RC,qpn=1,psn=1,mtu=8192", "pvep1,type=RC,qpn=1,psn=1,mtu=1",
		"pvep1,type=RC,qpn=1,psn=1,qkey=0x100000000", "pvep1,type=RC,qpn=1,psn=1,rd_atomic=256",
		"pvep1,type=RC,qpn=1,psn=1,dest_rd_atomic=256",
		"pvep1;type=RC", "pvep1,type", goldenText + strings.Repeat(",", 1000), strings.Repeat("A", 1<<20),
		"\x00\xff\xfe",
		"pvep1," + strings.Repeat("k", 400) + "=1",
	} {
		checkRefused(t, "text", []byte(s), encodings[0].read)
	}
	e := Endpoint{}
	if err := e.UnmarshalText([]byte(" " + "pvep1,psn=2,qpn=0x1,type=UD" + "\r\n")); err != nil ||
		e != (Endpoint{Type: UD, QPN: 1, PSN: 2}) {
		t.Errorf("other order, white space around: %v, %v", e, err)
	}
}

func TestEndpoint_BinaryBad(t *testing.T) {
	golden, err := hex.DecodeString(goldenHex)
	if err != nil {
		t.Fatal(err)
	}
	for n := range golden {
		checkRefused(t, "truncated", golden[:n], encodings[1].read)
	}
	checkRefused(t, "long", append(bytes.Clone(golden), 0), encodings[1].read)
	checkRefused(t, "huge", make([]byte, 1<<20), encodings[1].read)
	for _, c := range []struct {
		name string
		at   int
		b    byte
	}{
		{"magic", 0, 'Q'}, {"magic", 1, 0}, {"version 0", 2, 0}, {"version 2", 2, 2}, {"type 0", 3, 0},
		{"type 5", 3, 5}, {"type 251", 3, 251},
		{"qpn", 4, 1}, {"psn", 8, 1}, {"mtu 6", 18, 6}, {"mtu 255", 18, 255}, {"reserved", 21, 1},
	} {
		b := bytes.Clone(golden)
		b[c.at] = c.b
		checkRefused(t, c.name, b, encodings[1].read)
	}
}

func TestEndpoint_JSONBad(t *testing.T) {
	var m map[string]any
	if err := json.Unmarshal([]byte(goldenJSON), &m); err != nil {
		t.Fatal(err)
	}
	for key, values := range map[string][]any{
		"version":        {0, 2, "1", nil},
		"type":           {"", "rc", 2, "QPType(77)", strings.Repeat("R", 5000)},
		"qpn":            {-1, 1 << 24, 1 << 32, 1.5, "1"},
		"psn":            {1 << 24},
		"lid":            {65536, -1},
		"gid":            {"10.8.0.1", "x", 1, "fe80::1%v0", strings.Repeat(":", 5000)},
		"mtu_bytes":      {1, 1500, 8192, -1024},
		"qkey":           {1 << 32},
		"dest_rd_atomic": {256},
		"rd_atomic":      {-1},
		"gid_type":       {3, -1, "2", 2}, // golden has a LID
	} {
		for _, v := range values {
			old := m[key]
			m[key] = v
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			checkRefused(t, key, b, encodings[2].read)
			if m[key] = old; old == nil {
				delete(m, key)
			}
		}
	}
	for _, s := range []string{"", "null", "[]", "{}", "1", `"x"`, goldenJSON[:40], goldenJSON + "x",
		strings.Repeat("[", 20000)} {
		checkRefused(t, "json", []byte(s), encodings[2].read)
	}
	e := Endpoint{}
	if err := e.UnmarshalJSON([]byte(`{"version":1,"type":"UD","qpn":1,"psn":2,"later":[1,2]}`)); err != nil ||
		e != (Endpoint{Type: UD, QPN: 1, PSN: 2}) {
		t.Errorf("keys of a later release: %v, %v", e, err)
	}
}

func TestEndpoint_Validate(t *testing.T) {
	if err := goldenEndpoint().Validate(); err != nil {
		t.Errorf("golden: %v", err)
	}
	for _, ok := range []Endpoint{{Type: RC, QPN: 1, LID: 3}, {Type: UD, QPN: 1, GID: GID{15: 1}}, {Type: RawPacket}} {
		if err := ok.Validate(); err != nil {
			t.Errorf("%v: %v", ok, err)
		}
	}
	for _, tt := range []struct {
		e    Endpoint
		want []string
	}{
		{Endpoint{Type: RC, LID: 1}, []string{"qpn 0"}},
		{Endpoint{Type: RC, QPN: 1}, []string{"neither a GID nor a LID"}},
		{Endpoint{}, []string{"type 0", "qpn 0", "neither"}},
		{Endpoint{Type: 77, QPN: 1 << 24, PSN: 1 << 30, MTU: 9}, []string{"type 77", "qpn 0x1000000", "psn 0x40000000",
			"mtu 9", "neither"}},
	} {
		err := tt.e.Validate()
		var bad *EndpointError
		if !errors.As(err, &bad) {
			t.Errorf("%+v: %v", tt.e, err)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: no %q in %q", tt.e, w, err)
			}
		}
	}
}

func fuzzEndpoint(f *testing.F, i int) {
	b, err := encodings[i].write(goldenEndpoint())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		var e Endpoint
		if err := encodings[i].read(in, &e); err != nil {
			var bad *EndpointError
			if !errors.As(err, &bad) || e != (Endpoint{}) {
				t.Fatalf("%q gives %T %v and %v", in, err, err, e)
			}
			return
		}
		for _, enc := range encodings {
			b, err := enc.write(e)
			if err != nil {
				t.Fatalf("%q is %v, whose %s is refused: %v", in, e, enc.name, err)
			}
			var back Endpoint
			if err := enc.read(b, &back); err != nil || back != e {
				t.Fatalf("%v comes back as %v, %v", e, back, err)
			}
		}
	})
}

func FuzzEndpoint_Text(f *testing.F)   { fuzzEndpoint(f, 0) }
func FuzzEndpoint_Binary(f *testing.F) { fuzzEndpoint(f, 1) }
func FuzzEndpoint_JSON(f *testing.F)   { fuzzEndpoint(f, 2) }
