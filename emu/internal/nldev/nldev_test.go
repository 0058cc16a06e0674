//go:build linux

package nldev

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func newFabric(t *testing.T) *hca.Fabric {
	t.Helper()
	c, err := config.Parse([]string{"mlx5_0", "mlx5_1,link=ib,ports=2"})
	if err != nil {
		t.Fatal(err)
	}
	return hca.New(c)
}

// ask sends one request with attributes that are numbers, and returns each message's type and attributes, or the errno.
func ask(t *testing.T, f *hca.Fabric, cmd uint16, flags int, attrs ...uint32) (msgs []map[uint16]string, e unix.Errno) {
	t.Helper()
	b := make([]byte, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint16(b[4:], client<<10|cmd)
	binary.NativeEndian.PutUint16(b[6:], uint16(flags|unix.NLM_F_REQUEST))
	binary.NativeEndian.PutUint32(b[8:], 77)
	for i := 0; i+1 < len(attrs); i += 2 {
		b = binary.NativeEndian.AppendUint16(b, 8)
		b = binary.NativeEndian.AppendUint16(b, uint16(attrs[i]))
		b = binary.NativeEndian.AppendUint32(b, attrs[i+1])
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	done := false
	for _, out := range (&Server{Fabric: f}).Answer(4711, true, b) {
		if len(out) > most {
			t.Errorf("a datagram of %d bytes", len(out))
		}
		for len(out) > 0 {
			n, typ := binary.NativeEndian.Uint32(out), binary.NativeEndian.Uint16(out[4:])
			if seq, port := binary.NativeEndian.Uint32(out[8:]), binary.NativeEndian.Uint32(out[12:]); seq != 77 ||
				port != 4711 || n%4 != 0 {
				t.Fatalf("a message of %d bytes, number %d for %d", n, seq, port)
			}
			body := out[unix.SizeofNlMsghdr:n]
			out = out[n:]
			switch typ {
			case unix.NLMSG_DONE:
				done = true
				continue
			case unix.NLMSG_ERROR:
				e, done = unix.Errno(-int32(binary.NativeEndian.Uint32(body))), true
				continue
			}
			m := map[uint16]string{}
			for len(body) > 0 {
				k := binary.NativeEndian.Uint16(body)
				m[binary.NativeEndian.Uint16(body[2:])] = string(body[4:k])
				body = body[(k+3)&^3:]
			}
			msgs = append(msgs, m)
		}
	}
	if flags&(unix.NLM_F_ACK|unix.NLM_F_DUMP) != 0 && !done {
		t.Error("the end is missing")
	}
	return msgs, e
}

func TestAnswer(t *testing.T) {
	f := newFabric(t)
	names := func(msgs []map[uint16]string, e unix.Errno) string {
		var out []string
		for _, m := range msgs {
			out = append(out, strings.TrimRight(m[attrDevName], "\x00")+":"+string('0'+rune(m[attrPortIndex][0])))
		}
		if e != 0 {
			out = append(out, e.Error())
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		what  string
		cmd   uint16
		flags int
		attrs []uint32
		want  string
	}{
		{"all devices", cmdGet, unix.NLM_F_DUMP, nil, "mlx5_0:1 mlx5_1:2"},
		{"one device", cmdGet, unix.NLM_F_ACK, []uint32{attrDevIndex, 1}, "mlx5_1:2"},
		{"no device", cmdGet, unix.NLM_F_ACK, []uint32{attrDevIndex, 2}, "invalid argument"},
		{"a device of no number", cmdGet, unix.NLM_F_ACK, nil, "invalid argument"},
		{"all ports", cmdPortGet, unix.NLM_F_DUMP, []uint32{attrDevIndex, 1}, "mlx5_1:1 mlx5_1:2"},
		{"one port", cmdPortGet, unix.NLM_F_ACK, []uint32{attrDevIndex, 1, attrPortIndex, 2}, "mlx5_1:2"},
		{"no port", cmdPortGet, 0, []uint32{attrDevIndex, 1, attrPortIndex, 3}, "invalid argument"},
		{"a change", 2, unix.NLM_F_ACK, []uint32{attrDevIndex, 1}, "operation not supported"},
		{"a raw resource", 19, unix.NLM_F_DUMP, nil, "operation not supported"},
		{"no resources of any", 10, unix.NLM_F_DUMP, nil, "invalid argument"},
		{"a QP that is not there", 10, unix.NLM_F_ACK, []uint32{attrDevIndex, 0, attrLQPN, 77},
			"no such file or directory"},
		{"a QP of no number", 10, unix.NLM_F_ACK, []uint32{attrDevIndex, 0}, "invalid argument"},
		{"QPs of no port", 10, unix.NLM_F_DUMP, []uint32{attrDevIndex, 0, attrPortIndex, 2}, "invalid argument"},
		{"a PD of a port", 14, unix.NLM_F_ACK, []uint32{attrDevIndex, 0, attrPDN, 2, attrPortIndex, 1},
			"invalid argument"},
		{"counters of no port", cmdStatGet, unix.NLM_F_ACK, []uint32{attrDevIndex, 0}, "invalid argument"},
		{"counters of PDs", cmdStatGet, unix.NLM_F_DUMP, []uint32{attrDevIndex, 0, attrStatRes, attrPD},
			"invalid argument"},
		{"switches of no port", cmdStatus, unix.NLM_F_ACK, []uint32{attrDevIndex, 0}, "invalid argument"},
	} {
		if got := names(ask(t, f, tt.cmd, tt.flags, tt.attrs...)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
	eth, _ := ask(t, f, cmdPortGet, unix.NLM_F_DUMP, attrDevIndex, 0)
	if m := eth[0]; m[attrNdevName] != "emu0\x00" || m[attrPortState] != "\x04" || m[attrLID] != "" {
		t.Errorf("port of Ethernet: %q", m)
	}
	f.Devices[0].Ports[0].Active = false
	if eth, _ = ask(t, f, cmdPortGet, unix.NLM_F_DUMP, attrDevIndex, 0); eth[0][attrPortState] != "\x01" {
		t.Errorf("state of a port that is down: %q", eth[0])
	}
	f.Devices[0].Gone = true
	if got := names(ask(t, f, cmdGet, unix.NLM_F_DUMP)); got != "mlx5_1:2" {
		t.Errorf("after a removal: %s", got)
	}
}

// TestAnswer_DeviceFile asks for the device file of verbs, as no request of numbers alone can.
func TestAnswer_DeviceFile(t *testing.T) {
	c, err := config.Parse([]string{"mlx5_0", "mlx5_1,abi=write"})
	if err != nil {
		t.Fatal(err)
	}
	f := hca.New(c)
	for _, tt := range []struct {
		what, kind string
		device     int
		want       unix.Errno
	}{
		{"the file", "uverbs", 0, 0},
		{"a file of another kind", "umad", 0, unix.ENOENT},
		{"no kind", "", 0, unix.EINVAL},
		{"no device", "uverbs", 2, unix.EINVAL},
		{"an older kernel", "uverbs", 1, unix.EOPNOTSUPP},
	} {
		r := &request{s: &Server{Fabric: f}, f: f, typ: client<<10 | cmdChardev, kind: tt.kind,
			num: map[uint16]int{attrDevIndex: tt.device}}
		if e := r.run(cmdChardev); e != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, e, tt.want)
		} else if e == 0 && !strings.Contains(string(r.Message), "uverbs0\x00") {
			t.Errorf("%s: %q has no name", tt.what, r.Message)
		}
	}
}

// TestAnswer_Long reads all of a list that fits into no datagram.
func TestAnswer_Long(t *testing.T) {
	f := newFabric(t)
	c := f.Devices[0].Open(4321, nil)
	c.Ready = true
	for range 500 {
		if _, e := hca.AllocPD(c); e != 0 {
			t.Fatal(e)
		}
	}
	msgs, e := ask(t, f, 14, unix.NLM_F_DUMP, attrDevIndex, 0)
	seen := map[uint32]bool{}
	for _, m := range msgs {
		for b := []byte(m[attrPD]); len(b) > 0; {
			n := binary.NativeEndian.Uint16(b)
			for in := b[4:n]; len(in) > 0; {
				k := binary.NativeEndian.Uint16(in)
				switch v := in[4:k]; binary.NativeEndian.Uint16(in[2:]) {
				case attrPDN:
					seen[binary.NativeEndian.Uint32(v)] = true
				case attrPID:
					if pid := binary.NativeEndian.Uint32(v); pid != 4321 {
						t.Errorf("pid %d", pid)
					}
				}
				in = in[(k+3)&^3:]
			}
			b = b[n:]
		}
	}
	if len(seen) != 500 || len(msgs) < 2 || e != 0 {
		t.Errorf("%d PDs in %d messages: %v", len(seen), len(msgs), e)
	}
	if one, e := ask(t, f, 14, unix.NLM_F_ACK, attrDevIndex, 0, attrPDN, 400); e != 0 || len(one) != 1 ||
		binary.NativeEndian.Uint32([]byte(one[0][attrPDN])) != 400 {
		t.Errorf("one PD: %q, %v", one, e)
	}
	if sum, e := ask(t, f, cmdResGet, 0, attrDevIndex, 0); e != 0 || len(sum) != 1 ||
		!strings.Contains(sum[0][attrSummary], "pd\x00\x00\x0c\x00\x12\x00\xf4\x01\x00\x00") {
		t.Errorf("sum: %q, %v", sum, e)
	}
}

// TestAnswer_Garbage sends what no program means.
func TestAnswer_Garbage(t *testing.T) {
	f := newFabric(t)
	c := f.Devices[0].Open(1, nil)
	c.Ready = true
	if _, e := hca.AllocPD(c); e != 0 {
		t.Fatal(e)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := make([]byte, r.IntN(80))
		for i := range b {
			b[i] = byte(r.IntN(8) * r.IntN(40))
		}
		if len(b) >= 16 {
			binary.NativeEndian.PutUint32(b, uint32(r.IntN(len(b)+4)))
			binary.NativeEndian.PutUint16(b[4:], uint16(client<<10|r.IntN(26)))
		}
		(&Server{Fabric: f}).Answer(1, false, b)
	}
}
