//go:build linux

package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
	"github.com/pureverbs/pureverbs/emu/internal/verbs"
)

func context() hca.Held {
	return hca.Held{Context: &hca.Context{Device: &hca.Device{Config: &config.Device{Name: "mlx5_0"}}, PID: 7}}
}

// say returns the lines of one trace, without the time.
func say(t *testing.T, o Options, f func(*Trace)) []string {
	t.Helper()
	var b bytes.Buffer
	tr := New(&b, o)
	f(tr)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	s := regexp.MustCompile(`(?m)^\d+\.\d{6} |"us":\d+,`).ReplaceAllString(b.String(), "")
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for _, l := range lines {
		if o.JSON && !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
	return lines
}

// window returns a UMR with a control segment, a key context and perhaps a translation entry.
func window(head, ctrl, ctx, klm []byte) []byte {
	b := make([]byte, 128)
	copy(b, head)
	copy(b[16:], ctrl)
	copy(b[64:], ctx)
	if klm != nil {
		b = append(b, make([]byte, 64)...)
		copy(b[128:], klm)
	}
	return b
}

// Work requests, byte by byte.
var (
	bindWindow = window([]byte{0, 0, 3, 0x25, 0, 0, 0x45, 12, 0, 0, 0, 8, 0, 0, 1, 1},
		[]byte{0xb0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0x20, 0x3c, 0x60, 0x41},
		[]byte{0, 0, 0x30, 0, 0, 0, 0x45, 2, 16: 0, 22: 0x10, 31: 64},
		[]byte{0, 0, 0, 64, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x10, 0})
	invalidate = window([]byte{0, 0, 4, 0x25, 0, 0, 0x45, 8, 0, 0, 0, 8, 0, 0, 1, 2},
		[]byte{0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0x60, 0},
		[]byte{0x40, 0, 0, 0, 0xff, 0xff, 0xff, 0, 16: 0xaa, 31: 0xaa}, nil)
	sendImm = []byte{
		0, 0, 17, 0x0b, // control: index, opcode
		0, 0, 0x45, 3, // QPN, size
		0, 0, 0, 0x8a, // fence, CE, SE
		0xde, 0xad, 0xbe, 0xef, // immediate
		0, 0, 0, 64, 0, 0, 0x12, 0, 0, 0, 0x7f, 0, 0, 0, 0x10, 0, // data
		0, 0, 0, 8, 0, 0, 0x12, 1, 0, 0, 0x7f, 0, 0, 0, 0x20, 0,
	}
	writeInline = []byte{
		0, 0xff, 0xff, 0x08, 0, 0, 0x45, 3, 0, 0, 0, 0x08, 0, 0, 0, 0,
		0, 0, 0x55, 0, 0, 0, 0, 0x10, 0, 0, 0x22, 0, 0, 0, 0, 0, // remote address, key
		0x80, 0, 0, 4, 'a', 'b', 'c', 'd', 0, 0, 0, 0, 0, 0, 0, 0, // inline
	}
	compareSwap = []byte{
		0, 0, 1, 0x11, 0, 0, 0x45, 4, 0, 0, 0, 0x20, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 9, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6,
		0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x40, 0,
	}
	udSend = append(append([]byte{0, 0, 2, 0x0a, 0, 0, 0x46, 5, 0, 0, 0, 0, 0, 0, 0, 0}, // control
		append([]byte{0x11, 0x11, 0x11, 0x11, 0, 0, 0, 0, 0x80, 0, 0, 0x99}, make([]byte, 36)...)...), // address vector
		0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x40, 0)
	dciSend = append(append([]byte{0, 0, 2, 0x0a, 0, 0, 0x45, 5, 0, 0, 7, 0, 0, 0, 0, 0}, // control
		append([]byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x80, 0, 0, 0x99}, make([]byte, 36)...)...),
		0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x40, 0)
)

// tagAppend adds a tag to the list of an SRQ.
var tagAppend = []byte{0, 0, 5, 0x28, 0, 0, 0x45, 4, 0, 0, 0, 0, 0, 0, 0, 0,
	0x10, 0xc0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0, 0, 0, 0, 0, 0, 0, 0xff,
	0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x40, 0}

func TestEngine_WQE(t *testing.T) {
	for _, tt := range []struct {
		name       string
		typ        hca.QPType
		raw        []byte
		text, json string
	}{
		{"send imm", hca.RC, sendImm,
			"7 mlx5_0 wqe qp=0x45 index=17 op=SEND_IMM ds=3 CE SE FENCE imm=0xdeadbeef sges=[{lkey=0x1200 " +
				"addr=0x7f0000001000 len=64} {lkey=0x1201 addr=0x7f0000002000 len=8}] dqpn=0x50",
			`{"pid":7,"device":"mlx5_0","kind":"wqe","qp":"0x45","index":17,"op":"SEND_IMM","ds":3,` +
				`"CE":true,"SE":true,"FENCE":true,"imm":"0xdeadbeef",` +
				`"sges":[{"lkey":"0x1200","addr":"0x7f0000001000","len":64},` +
				`{"lkey":"0x1201","addr":"0x7f0000002000","len":8}],"dqpn":"0x50"}`},
		{"write inline", hca.RC, writeInline,
			"7 mlx5_0 wqe qp=0x45 index=65535 op=RDMA_WRITE ds=3 CE raddr=0x550000000010 rkey=0x2200 inline=4 " +
				"dqpn=0x50", ""},
		{"compare and swap", hca.RC, compareSwap,
			"7 mlx5_0 wqe qp=0x45 index=1 op=ATOMIC_CS ds=4 SMALL_FENCE raddr=0x1000 rkey=0x9 swap_add=0x5 " +
				"compare=0x6 sges=[{lkey=0x3 addr=0x4000 len=8}] dqpn=0x50", ""},
		{"bind", hca.RC, bindWindow,
			"7 mlx5_0 wqe qp=0x45 index=3 op=UMR ds=12 CE key=0x101 umr={flags=0xb0 mask=0x203c6041 qpn=0x45 " +
				"variant=0x2 access=0x30 start=0x1000 len=64 lkey=0x200 addr=0x1000 entry_len=64} dqpn=0x50", ""},
		{"invalidate", hca.RC, invalidate,
			"7 mlx5_0 wqe qp=0x45 index=4 op=UMR ds=8 CE key=0x102 umr={flags=0x98 mask=0x20006000 FREE " +
				"qpn=0xffffff variant=0x0} dqpn=0x50", ""},
		{"tag", hca.RC, tagAppend,
			"7 mlx5_0 wqe qp=0x45 index=5 op=TAG_MATCHING ds=4 tm={op=APPEND CQE handled=9 index=3 tag=0x77 " +
				"mask=0xff} sges=[{lkey=0x3 addr=0x4000 len=8}] dqpn=0x50", ""},
		{"ud", hca.UD, udSend, "7 mlx5_0 wqe qp=0x45 index=2 op=SEND ds=5 qkey=0x11111111 dqpn=0x99 sges=[{lkey=0x3 " +
			"addr=0x4000 len=1}]", ""},
		{"dci", hca.DCI, dciSend, "7 mlx5_0 wqe qp=0x45 index=2 op=SEND ds=5 dc_key=0x1122334455667788 dqpn=0x99 " +
			"stream=7 sges=[{lkey=0x3 addr=0x4000 len=1}]", ""},
		{"unknown", hca.RC, append([]byte{0, 0, 2, 0x77}, make([]byte, 12)...),
			"7 mlx5_0 wqe qp=0x45 index=2 op=Opcode(119) ds=0 dqpn=0x50", ""},
	} {
		r := &engine.Record{Kind: engine.KindWQE, PID: 7, QP: &hca.QP{Held: context(), Num: 0x45, Type: tt.typ},
			Raw: tt.raw, PeerQPN: 0x50}
		if got := say(t, Options{}, func(tr *Trace) { tr.Engine(r) })[0]; got != tt.text {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.text)
		}
		if got := say(t, Options{JSON: true}, func(tr *Trace) { tr.Engine(r) })[0]; tt.json != "" && got != tt.json {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.json)
		}
		// Nothing that a program writes there may be too much.
		for n := range tt.raw {
			for _, typ := range []hca.QPType{hca.RC, hca.UD, hca.XRCSend, hca.DCI} {
				r.Raw, r.QP.Type = tt.raw[:n], typ
				say(t, Options{JSON: true, Raw: true}, func(tr *Trace) { tr.Engine(r) })
			}
		}
	}
}

func TestEngine_Records(t *testing.T) {
	c := context()
	qp := &hca.QP{Held: c, Num: 0x45, Type: hca.RC}
	cq := &hca.CQ{Held: c, Num: 3, Entries: 16}
	for _, tt := range []struct {
		r    engine.Record
		want string
	}{
		{engine.Record{Kind: engine.KindDoorbell, QP: qp, Index: 65535, N: 2, BlueFlame: true},
			"0 mlx5_0 doorbell qp=0x45 record=65535 blocks=2 blueflame"},
		{engine.Record{Kind: engine.KindArm, CQ: cq, Index: 5, SN: 2, Solicited: true},
			"0 mlx5_0 arm cq=0x3 ci=5 sn=2 solicited_only"},
		{engine.Record{Kind: engine.KindRecv, QP: qp, SRQ: &hca.SRQ{Num: 9}, Index: 4, N: 100},
			"0 mlx5_0 recv qp=0x45 srq=0x9 index=4 bytes=100"},
		{engine.Record{Kind: engine.KindRetry, QP: qp, Index: 4, Syndrome: 0x16, N: 2},
			"0 mlx5_0 retry qp=0x45 index=4 why=RNR try=2"},
		{engine.Record{Kind: engine.KindRetry, QP: qp, Index: 4, Syndrome: 0x15, N: 2},
			"0 mlx5_0 retry qp=0x45 index=4 why=NO_ANSWER try=2"},
		{engine.Record{Kind: engine.KindCQE, CQ: cq, QP: qp, Index: 17, Opcode: 0, WQEOpcode: 8, WQE: 5, N: 64},
			"0 mlx5_0 cqe cq=0x3 qp=0x45 pi=17 owner=1 op=REQ wqe_counter=5 byte_cnt=64 wqe_op=RDMA_WRITE"},
		{engine.Record{Kind: engine.KindCQE, CQ: cq, QP: qp, Index: 32, Opcode: 3, Imm: 7, Solicited: true},
			"0 mlx5_0 cqe cq=0x3 qp=0x45 pi=32 owner=0 op=RESP_SEND_IMM wqe_counter=0 byte_cnt=0 imm=0x7 SE"},
		{engine.Record{Kind: engine.KindCQE, CQ: cq, Opcode: 13, Syndrome: 0x15, Vendor: 0x81, WQEOpcode: 10},
			"0 mlx5_0 cqe cq=0x3 pi=0 owner=0 op=REQ_ERR wqe_counter=0 syndrome=TRANSPORT_RETRY_EXC_ERR vendor=0x81 " +
				"wqe_op=SEND"},
		{engine.Record{Kind: engine.KindEvent, CQ: cq, Index: 3}, "0 mlx5_0 comp_event cq=0x3 pi=3"},
		{engine.Record{Kind: engine.KindState, QP: qp, State: hca.Err}, "0 mlx5_0 state qp=0x45 state=ERR"},
		{engine.Record{Kind: engine.KindState, QP: qp, State: 17, Raw: []byte{1, 0xab}},
			"0 mlx5_0 state qp=0x45 state=QPState(17) raw=01ab"},
		{engine.Record{Kind: 99}, "0 - ?"},
	} {
		if got := say(t, Options{Raw: true}, func(tr *Trace) { tr.Engine(&tt.r) })[0]; got != tt.want {
			t.Errorf("%s\nwant\n%s", got, tt.want)
		}
		say(t, Options{JSON: true}, func(tr *Trace) { tr.Engine(&tt.r) })
	}
}

func TestTrace_Others(t *testing.T) {
	c := context().Context
	f := func(tr *Trace) {
		tr.Command(&verbs.Record{PID: 8, Context: c, Name: "reg_mr",
			Request: uapi.RegMR{Start: 0x7000, Length: 4096, PDHandle: 2}, Errno: unix.ENOMEM})
		tr.Command(&verbs.Record{PID: 8, Context: c, Name: "alloc_pd", Response: uapi.HandleOnly{Handle: 2},
			Errno: 1 << 20})
		tr.CM(&cm.Record{TID: 9, Name: "CM_CONNECT", ID: 3, Errno: unix.ENOENT})
		tr.CM(&cm.Record{Name: "EVENT REJECTED", ID: 3, Status: -110})
		tr.Event(c, hca.EventPortErr, 1)
		tr.Event(c, 300, 1)
		tr.Fault(8, "mlx5_0", `a "b"`)
	}
	want := []string{
		"8 mlx5_0 cmd name=reg_mr req={Start=0x7000 Length=0x1000 PDHandle=2} errno=ENOMEM",
		"8 mlx5_0 cmd name=alloc_pd resp={Handle=2} errno=1048576",
		"9 - cm name=CM_CONNECT id=3 errno=ENOENT",
		"0 - cm_event name=REJECTED id=3 status=-110",
		"7 mlx5_0 async_event name=PORT_ERR element=0x1",
		"7 mlx5_0 async_event name=EventType(255) element=0x1",
		`8 mlx5_0 fault spec="a \"b\""`,
	}
	if got := say(t, Options{}, f); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	say(t, Options{JSON: true}, f)
}

func TestTrace_Set(t *testing.T) {
	got := say(t, Options{Off: true}, func(tr *Trace) {
		tr.Fault(0, "", "no")
		tr.Set(true)
		tr.Fault(0, "", "yes")
		tr.Set(false)
		tr.Fault(0, "", "no")
	})
	if len(got) != 1 || got[0] != "0 - fault spec=yes" {
		t.Errorf("%q", got)
	}
	if (*Trace)(nil).On() {
		t.Error("no trace is on")
	}
}

func TestLine_Strings(t *testing.T) {
	for _, s := range []string{"", "a b", "\x00\x7f\xff", "é", "\n\"\\", "\x1b[2J\u009b\u202e\U000e0001",
		strings.Repeat("x", 1000)} {
		l := line{}
		l.str("k", s)
		if strings.ContainsFunc(string(l.b), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: a terminal would obey %q", s, l.b)
		}
		l = line{json: true}
		l.head(0, 1, s, "k")
		l.finish()
		var v struct{ Device string }
		if err := json.Unmarshal(l.b, &v); err != nil || v.Device != strings.ToValidUTF8(s, "\uFFFD") {
			t.Errorf("%q: %s, %v", s, l.b, err)
		}
	}
}

// slow is a reader that first reads nothing.
type slow struct {
	sync.Mutex
	bytes.Buffer
	go1 chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.go1
	s.Lock()
	defer s.Unlock()
	return s.Buffer.Write(p)
}

// TestTrace_Waits shows that nothing is lost as long as the reader reads at all, and that one who does not read holds
// up nobody for long.
func TestTrace_Waits(t *testing.T) {
	w := &slow{go1: make(chan struct{})}
	tr := New(w, Options{})
	time.AfterFunc(100*time.Millisecond, func() { close(w.go1) })
	spec := strings.Repeat("x", 1<<16)
	const n = 300 // some 20 MB, several times the buffer
	for range n {
		tr.Fault(0, "", spec)
	}
	if err := tr.Close(); err != nil || strings.Count(w.String(), "\n") != n {
		t.Errorf("%v, %d lines of %d", err, strings.Count(w.String(), "\n"), n)
	}
}

func TestTrace_Stuck(t *testing.T) {
	w := &slow{go1: make(chan struct{})}
	tr := New(w, Options{})
	tr.farewell = await.Limit
	start := time.Now()
	spec := strings.Repeat("x", 1<<16)
	const n = 300
	for range n {
		tr.Fault(0, "", spec)
	}
	if d := time.Since(start); d > patience+await.Limit {
		t.Errorf("held up for %v", d)
	}
	tr.mu.Lock()
	lost := tr.dropped
	tr.mu.Unlock()
	close(w.go1)
	err := tr.Close()
	if err == nil || lost == 0 || !strings.Contains(err.Error(), fmt.Sprintf("%d lines lost", lost)) {
		t.Errorf("%v, %d dropped", err, lost)
	}
	if got := strings.Count(w.String(), "\n"); got+int(lost) != n {
		t.Errorf("%d lines written, %d lost, want %d together", got, lost, n)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, unix.ENOSPC }

func TestTrace_WriteError(t *testing.T) {
	tr := New(broken{}, Options{})
	tr.Fault(0, "", "x")
	if err := tr.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v, want ENOSPC", err)
	}
}

func BenchmarkEngine_WQE(b *testing.B) {
	tr := New(new(bytes.Buffer), Options{})
	r := &engine.Record{Kind: engine.KindWQE, PID: 7, QP: &hca.QP{Held: context(), Num: 0x45, Type: hca.RC},
		Raw: sendImm}
	b.ReportAllocs()
	for b.Loop() {
		tr.Engine(r)
	}
	_ = tr.Close()
}
