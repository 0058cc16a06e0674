package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

var testDest = Dest{
	LID: 0x12, OutReads: 16, QPN: 0x11d, PSN: 0xabcdef, RKey: 0x1f2e3d, VAddr: 0x7f0123456000,
	GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 8, 14: 0, 15: 1},
}

func TestKeyGolden(t *testing.T) {
	for _, tc := range []struct {
		name string
		gid  bool
		want string
	}{
		{"lid", false, "0012:0010:00011d:abcdef:001f2e3d:00007f0123456000:00000000\x00"},
		{"gid", true, "0012:0010:00011d:abcdef:001f2e3d:00007f0123456000:" +
			"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:08:00:01:00000000:\x00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := testDest.appendKey(nil, tc.gid)
			if string(got) != tc.want {
				t.Errorf("key = %q\nwant  %q", got, tc.want)
			}
			if n := map[bool]int{false: keyLenLID, true: keyLenGID}[tc.gid]; len(got) != n {
				t.Errorf("key has %d bytes, want %d", len(got), n)
			}
			back, err := parseKey(got, tc.gid)
			want := testDest
			if !tc.gid {
				want.GID = [16]byte{}
			}
			if err != nil || back != want {
				t.Errorf("parseKey = %+v, %v", back, err)
			}
		})
	}
}

func TestStructGolden(t *testing.T) {
	const head = "\x00\x00\x00\x12\x00\x00\x00\x10\x00\x00\x01\x1d\x00\xab\xcd\xef" +
		"\x00\x1f\x2e\x3d\x00\x00\x00\x00\x00\x00\x7f\x01\x23\x45\x60\x00"
	const gid = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x08\x00\x01"
	none := strings.Repeat("\x00", 8)
	for _, tc := range []struct {
		long bool
		want string
	}{{false, head + gid + none}, {true, head + none + gid + none}} {
		got := testDest.appendStruct(nil, tc.long)
		if string(got) != tc.want {
			t.Errorf("long %v: %x, want %x", tc.long, got, tc.want)
		}
		if back, err := parseStruct(got); err != nil || back != testDest {
			t.Errorf("long %v: parseStruct = %+v, %v", tc.long, back, err)
		}
	}
	bad := testDest.appendStruct(nil, false)
	bad[8] = 1
	if _, err := parseStruct(bad); err == nil || !strings.Contains(err.Error(), "24 bits") {
		t.Errorf("a qp number of 25 bits: %v", err)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	good := string(testDest.appendKey(nil, true))
	for name, s := range map[string]string{
		"empty":       "",
		"zeros":       strings.Repeat("\x00", keyLenGID),
		"colons":      strings.Repeat(":", keyLenGID),
		"text":        strings.Repeat("GET / HTTP/1.1\r\n", 7)[:keyLenGID],
		"not hex":     strings.Replace(good, "abcdef", "xbcdef", 1),
		"sign":        strings.Replace(good, "abcdef", "-bcdef", 1),
		"short":       good[:60],
		"qpn 25 bits": strings.Replace(good, "00011d", "1000000", 1),
		"no zero":     strings.Repeat("0", keyLenGID),
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := parseKey([]byte(s), true); err == nil {
				t.Errorf("parseKey(%q) = %+v, want an error", s, d)
			}
		})
	}
	if _, err := parseKey([]byte(strings.TrimSuffix(good, "\x00")+"\x00rubbish"), true); err != nil {
		t.Errorf("what follows the zero must not matter: %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(testDest.appendKey(nil, true), true)
	f.Add(testDest.appendKey(nil, false), false)
	f.Add([]byte(strings.Repeat(":", keyLenGID)), true)
	f.Fuzz(func(t *testing.T, b []byte, gid bool) {
		d, err := parseKey(b, gid)
		if err != nil {
			return
		}
		back, err := parseKey(d.appendKey(nil, gid), gid)
		if err != nil || back != d {
			t.Errorf("%q parsed as %+v, which does not survive: %+v, %v", b, d, back, err)
		}
	})
}

func FuzzParseParams(f *testing.F) {
	f.Add(testParams.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseParams(b)
		if err != nil {
			return
		}
		if back, err := parseParams(p.append(nil)); err != nil || back != p {
			t.Errorf("%+v does not survive: %+v, %v", p, back, err)
		}
	})
}

// TestSizesDiffer: ends with different lists of sizes do not go together, nor does one with a list and one without.
func TestSizesDiffer(t *testing.T) {
	lists := []string{"", "[2 4]", "[2 8]"}
	for _, a := range lists {
		for _, b := range lists {
			ours, peer := testParams, testParams
			ours.Sizes, peer.Sizes = a, b
			told, err := parseParams(peer.append(nil))
			if err != nil {
				t.Fatal(err)
			}
			if err := ours.Check(told); (err == nil) != (a == b) {
				t.Errorf("list %q here, %q at the peer: %v", a, b, err)
			}
		}
	}
}

// TestPayloadsDiffer: where both check the payload, both have it from the same file.
func TestPayloadsDiffer(t *testing.T) {
	for _, tc := range []struct {
		ours, peer uint64
		verify     bool
		want       string
	}{
		{0, 0, true, ""}, {5, 5, true, ""}, {5, 6, false, ""}, {0, 6, false, ""},
		{5, 6, true, "one file here, another file at the peer"}, {0, 6, true, "rdmaperf's own here, another file"},
		{5, 0, true, "one file here, rdmaperf's own at the peer"},
	} {
		ours, peer := testParams, testParams
		ours.Payload, peer.Payload, ours.Verify, peer.Verify = tc.ours, tc.peer, tc.verify, tc.verify
		told, err := parseParams(peer.append(nil))
		if err != nil || told != peer {
			t.Fatalf("%+v, %v", told, err)
		}
		err = ours.Check(told)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// TestShortSilence: a timeout below the unit of the message is still one: an end without heartbeats takes them for
// parts of messages.
func TestShortSilence(t *testing.T) {
	for own, want := range map[time.Duration]time.Duration{0: 0, 1: time.Millisecond,
		time.Millisecond: time.Millisecond, 1500 * time.Microsecond: 2 * time.Millisecond,
		30 * time.Second: 30 * time.Second} {
		p := testParams
		p.Silence = own
		if told, err := parseParams(p.append(nil)); err != nil || told.Silence != want {
			t.Errorf("%v arrives as %v, %v; want %v", own, told.Silence, err, want)
		}
	}
}

var testParams = Params{Verb: Write, Metric: Bandwidth, Size: 65536, Iters: 5000, QPs: 2, Bidirectional: true}

func TestParamsCheck(t *testing.T) {
	if err := testParams.Check(testParams); err != nil {
		t.Fatal(err)
	}
	peer := testParams
	peer.Verb, peer.Metric, peer.Size, peer.QPs = Read, Latency, 2, 1
	err := testParams.Check(peer)
	var m *MismatchError
	if !errors.As(err, &m) || len(m.Differences) != 3 {
		t.Fatalf("Check = %v, want three differences", err)
	}
	for _, s := range []string{"write bw here, read lat at the peer", "65536", "queue pairs"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
	all := testParams
	all.All = true
	if err := all.Check(testParams); err == nil || !strings.Contains(err.Error(), "(-a)") ||
		strings.Contains(err.Error(), "(-s)") {
		t.Errorf("a sweep against one size: %v", err)
	}
}

func TestNegotiateGolden(t *testing.T) {
	p := Params{Verb: Write, Metric: Bandwidth, Size: 65536, Iters: 5000, QPs: 1}
	b := p.appendNegotiate(nil, 128, true)
	want := make([]byte, negotiateLenMLX5)
	for off, v := range map[int]uint32{8: 2, 12: 1, 24: 1, 36: 65536, 44: 5000, 52: 1, 56: 5} {
		binary.BigEndian.PutUint32(want[off:], v)
	}
	binary.LittleEndian.PutUint32(want[224:], 128)
	if d := cmp.Diff(want, b); d != "" {
		t.Error(d)
	}
	back, err := parseNegotiate(b, p)
	if err != nil || back != p {
		t.Errorf("parseNegotiate = %+v, %v", back, err)
	}
}

// pair returns one of our ends and the raw socket of a fake peer.
func pair(t *testing.T, role Role, timeout time.Duration) (*Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	w := NewConn(t.Context(), c, role, timeout)
	t.Cleanup(func() { w.Close(); raw.Close() })
	return w, raw
}

var testHello = Hello{PageSize: 4096, CacheLine: 64, MTU: 3, Params: testParams, MaxReads: 128}

// step is one step of a scripted stock peer.
type step struct{ peer, ours string }

// stock plays the steps on the raw socket, as the other role than ours, and
// compares what we say byte by byte.
func stock(t *testing.T, raw net.Conn, ours Role, steps []step) {
	t.Helper()
	raw.SetDeadline(time.Now().Add(testutil.Patience))
	for i, s := range steps {
		if ours == Server {
			if _, err := io.WriteString(raw, s.peer); err != nil {
				t.Errorf("step %d: %v", i, err)
				return
			}
		}
		// A stock peer reads with a single call; so do we here, after a moment.
		time.Sleep(10 * time.Millisecond)
		b := make([]byte, len(s.ours))
		n, err := raw.Read(b)
		if err != nil || string(b[:n]) != s.ours {
			t.Errorf("step %d: a single read got %q, %v; want %q", i, b[:n], err, s.ours)
			return
		}
		if ours == Client {
			if _, err := io.WriteString(raw, s.peer); err != nil {
				t.Errorf("step %d: %v", i, err)
				return
			}
		}
	}
}

func be64(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }

// TestGoldenExchange is a whole test with perftest 6.06, both roles.
func TestGoldenExchange(t *testing.T) {
	hello := "6.27\x00\x00\x00\x00pverbs1\x00"
	peerDest := testDest
	peerDest.QPN, peerDest.PSN = 0x22, 7
	key := string(testDest.appendKey(nil, true))
	peerKey := string(peerDest.appendKey(nil, true))
	f := func(v float64) string { return be64(math.Float64bits(v)) }
	steps := []step{
		{"6.06" + strings.Repeat("\x00", 12), hello},
		{"\x00\x01\x00\x00", "\x00\x00\x10\x00"},
		{"\x00\x00\x00\x40", "\x00\x00\x00\x40"},
		{"5\x00", "3\x00"},
		{peerKey, key},
		{be64(65536), be64(65536)},
		{be64(1000), be64(1000)},
		{f(70.5), f(12.5)},
		{f(60.25), f(11.5)},
		{f(0.0009), f(0.0002)},
		{f(40.25), f(6)}, {f(0.0006), f(0.0001)}, {f(20), f(5.5)}, {f(0.0003), f(0.0001)},
	}
	for _, role := range []Role{Client, Server} {
		t.Run(role.String(), func(t *testing.T) {
			w, raw := pair(t, role, testutil.Patience)
			var wg sync.WaitGroup
			wg.Go(func() { stock(t, raw, role, steps) })
			a, err := w.Hello(testHello)
			if err != nil {
				t.Fatal(err)
			}
			want := Agreed{PeerVersion: "6.06", PageSize: 65536, CacheLine: 64, MTU: 3}
			if a != want {
				t.Errorf("Hello = %+v, want %+v", a, want)
			}
			w.UseGID(true)
			d, err := w.Keys("keys", testDest)
			if err != nil || d != peerDest {
				t.Fatalf("Keys = %+v, %v", d, err)
			}
			own := Report{65536, 1000, 12.5, 11.5, 0.0002, true, [2]PortReport{{6, 0.0001}, {5.5, 0.0001}}}
			r, err := w.Reports(own, time.Minute)
			ports := [2]PortReport{{40.25, 0.0006}, {20, 0.0003}}
			if wr := (Report{65536, 1000, 70.5, 60.25, 0.0009, true, ports}); err != nil || r != wr {
				t.Errorf("Reports = %+v, %v; want %+v", r, err, wr)
			}
			wg.Wait()
			// The end: keys, then "done" and the end of the stream.
			end := make(chan error, 1)
			go func() { end <- w.Finish(testDest, time.Minute) }()
			stock(t, raw, role, []step{{peerKey, key}})
			if role == Server {
				io.WriteString(raw, "done\x00")
			}
			rest, _ := io.ReadAll(raw)
			raw.Close()
			if string(rest) != "done\x00" {
				t.Errorf("after the end came %q, want %q", rest, "done\x00")
			}
			if err := <-end; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestVersion628 is the one version with a step of its own, in both lengths.
func TestVersion628(t *testing.T) {
	p := Params{Verb: Read, Metric: Latency, Size: 2, Iters: 1000, QPs: 1}
	h := testHello
	h.Params = p
	for _, role := range []Role{Client, Server} {
		for _, long := range []bool{true, false} {
			w, raw := pair(t, role, testutil.Patience)
			h.ShortNeg = !long
			var wg sync.WaitGroup
			wg.Go(func() {
				n := string(p.appendNegotiate(nil, 128, long))
				stock(t, raw, role, []step{
					{"6.28" + strings.Repeat("\x00", 12), "6.27\x00\x00\x00\x00pverbs1\x00"},
					{"\x00\x00\x10\x00", "\x00\x00\x10\x00"},
					{"\x00\x00\x00\x40", "\x00\x00\x00\x40"},
					{"3\x00", "3\x00"},
					{n, n},
				})
			})
			if _, err := w.Hello(h); err != nil {
				t.Errorf("%v, long %v: %v", role, long, err)
			}
			wg.Wait()
		}
	}
}

func TestOursMeetOurs(t *testing.T) {
	run := func(p, q Params) (a Agreed, errC, errS error) {
		ln, err := Listen(t.Context(), TCP, "127.0.0.1", 0, testutil.Patience)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			c, err := Dial(t.Context(), TCP, "", "127.0.0.1", ln.Port(), testutil.Patience, 0)
			if err != nil {
				errC = err
				return
			}
			defer c.Close()
			h := testHello
			h.Params = p
			a, errC = c.Hello(h)
		})
		s, err := ln.Accept(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		h := testHello
		h.Params = q
		_, errS = s.Hello(h)
		wg.Wait()
		s.Close()
		return a, errC, errS
	}
	a, errC, errS := run(testParams, testParams)
	if errC != nil || errS != nil || !a.Ours {
		t.Errorf("same parameters: %+v, %v, %v", a, errC, errS)
	}
	other := testParams
	other.Size = 4096
	_, errC, errS = run(testParams, other)
	for _, err := range []error{errC, errS} {
		var m *MismatchError
		if !errors.As(err, &m) || !strings.Contains(err.Error(), "4096") {
			t.Errorf("different sizes: %v, want a MismatchError that names 4096", err)
		}
	}
}

// TestArrived: each end learns how much arrived at the other. An older rdmaperf says that it cannot tell, and is not
// asked.
func TestArrived(t *testing.T) {
	for _, tells := range []bool{true, false} {
		w, raw := pair(t, Client, testutil.Patience)
		p := testParams
		p.Counts = true
		h := testHello
		h.Params = p
		peer := p
		peer.Counts = tells
		var wg sync.WaitGroup
		wg.Go(func() {
			stock(t, raw, Client, []step{
				{"6.27\x00\x00\x00\x00pverbs1\x00", "6.27\x00\x00\x00\x00pverbs1\x00"},
				{"\x00\x00\x10\x00", "\x00\x00\x10\x00"},
				{"\x00\x00\x00\x40", "\x00\x00\x00\x40"},
				{"3\x00", "3\x00"},
				{string(peer.append(nil)), string(p.append(nil))},
			})
			if tells {
				stock(t, raw, Client, []step{{be64(185), be64(4999)}})
			}
		})
		a, err := w.Hello(h)
		if err != nil || a.Counts != tells {
			t.Errorf("peer tells %v: %+v, %v", tells, a, err)
		}
		if tells {
			if n, err := w.Arrived(4999, testutil.Patience); n != 185 || err != nil {
				t.Errorf("%d arrived, %v; want 185", n, err)
			}
		}
		wg.Wait()
	}
}

// TestStrangers is what comes to an open port: silence, garbage, a close.
func TestStrangers(t *testing.T) {
	long := strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 20)
	ver := "6.06" + strings.Repeat("\x00", 12)
	upTo := ver + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	for _, role := range []Role{Client, Server} {
		for _, tc := range []struct {
			name  string
			say   string
			close bool
			want  error
			text  string
		}{
			{"silence", "", false, ErrSilent, "version"},
			{"close at once", "", true, ErrClosed, "version"},
			{"http", long, false, ErrGarbage, "GET / HTTP"},
			{"zeros", strings.Repeat("\x00", 4096), false, ErrGarbage, "version"},
			{"ancient", "5.33" + strings.Repeat("\x00", 12), false, ErrGarbage, "5.33"},
			{"part of a version", "6.0", false, ErrSilent, "3 of 16 bytes"},
			{"closed in a version", "6.0", true, ErrClosed, "3 of 16 bytes"},
			{"huge page", ver + "\xff\xff\xff\xff", false, ErrGarbage, "page size"},
			{"page of a megabyte", ver + "\x00\x10\x00\x00", false, ErrGarbage,
				"page size is 1048576, expected 1 to 262144"},
			{"zero page", ver + "\x00\x00\x00\x00", false, ErrGarbage, "page size"},
			{"huge line", ver + "\x00\x00\x10\x00" + "\x7f\xff\xff\xff", false, ErrGarbage, "cache line"},
			{"bad mtu", ver + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "9\x00", false, ErrGarbage, "MTU"},
			{"silence at keys", upTo, false, ErrSilent, "keys"},
			{"garbage at keys", upTo + strings.Repeat("z", 108), false, ErrGarbage, "zzz"},
			{"other form of keys", upTo + string(testDest.appendKey(nil, false)), false, nil, "no GID"},
			{"close at keys", upTo + "0012:", true, ErrClosed, "5 of 59 bytes"},
		} {
			t.Run(role.String()+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				w, raw := pair(t, role, 200*time.Millisecond)
				go func() {
					io.WriteString(raw, tc.say)
					if tc.close {
						raw.(*net.TCPConn).CloseWrite()
					}
					io.Copy(io.Discard, raw)
				}()
				start := time.Now()
				_, err := w.Hello(testHello)
				if err == nil {
					w.UseGID(true)
					_, err = w.Keys("keys", testDest)
				}
				var x *ExchangeError
				if !errors.As(err, &x) || (tc.want != nil && !errors.Is(err, tc.want)) ||
					!strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %v, want an ExchangeError with %v that says %q", err, tc.want, tc.text)
				}
				if d := time.Since(start); d > testutil.Patience {
					t.Errorf("it took %v", d)
				}
			})
		}
	}
}

func TestSecondClientIsTurnedAway(t *testing.T) {
	ln, err := Listen(t.Context(), TCP, "127.0.0.1", 0, testutil.Patience)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() *Conn {
		c, err := Dial(t.Context(), TCP, "", "127.0.0.1", ln.Port(), testutil.Patience, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := dial()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := first.Hello(testHello); err != nil {
			t.Errorf("the first client was harmed: %v", err)
		}
	})
	srv, err := ln.Accept(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = dial().Hello(testHello)
	if !errors.Is(err, ErrBusy) {
		t.Errorf("the second client got %v, want ErrBusy", err)
	}
	silent := dial() // must not keep Close waiting
	_ = silent
	if _, err := srv.Hello(testHello); err != nil {
		t.Errorf("server: %v", err)
	}
	wg.Wait()
	srv.Close()
	done := make(chan error, 1)
	go func() { done <- ln.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testutil.Patience):
		t.Error("Close hangs")
	}
}

func TestWatch(t *testing.T) {
	gone, spoke := make(chan error, 1), make(chan struct{}, 1)
	w, raw := pair(t, Server, testutil.Patience)
	stop := w.Watch(func(err error) { gone <- err }, func() { spoke <- struct{}{} })
	stop()
	stop = w.Watch(func(err error) { gone <- err }, func() { spoke <- struct{}{} })
	select {
	case err := <-gone:
		t.Fatalf("gone without a reason: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	raw.Close()
	select {
	case err := <-gone:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("gone = %v", err)
		}
	case <-time.After(testutil.Patience):
		t.Error("the close went unnoticed")
	}
	stop()

	// Something said is not an end, and stays there to be read.
	w, raw = pair(t, Server, testutil.Patience)
	stop = w.Watch(func(err error) { gone <- err }, func() { spoke <- struct{}{} })
	raw.Write(testDest.appendKey(nil, true))
	<-spoke
	stop()
	w.UseGID(true)
	if d, err := w.Keys("keys", testDest); err != nil || d != testDest {
		t.Errorf("after the watch: %+v, %v", d, err)
	}
	if len(gone) != 0 {
		t.Errorf("gone = %v", <-gone)
	}
}

func TestContextEndsBarrier(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a, b := net.Pipe()
	defer b.Close()
	w := NewConn(ctx, a, Server, time.Minute)
	defer w.Close()
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := w.Barrier("end", testDest, Forever); !errors.Is(err, context.Canceled) {
		t.Errorf("Barrier = %v, want context.Canceled", err)
	}
	if err := w.Barrier("end", testDest, Forever); !errors.Is(err, context.Canceled) {
		t.Errorf("second Barrier = %v, want context.Canceled", err)
	}
}

func TestDialNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	_, err = Dial(t.Context(), TCP, "", "127.0.0.1", port, time.Second, 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "no server is listening") {
		t.Errorf("Dial = %v", err)
	}
}

func TestParamsGolden(t *testing.T) {
	p := testParams
	p.Duration, p.Verify = 2*time.Second, true
	want := make([]byte, 128)
	copy(want, "pverbs1\x00\x02\x01\x06\x00\x00\x00\x00\x02")
	copy(want[16:], be64(65536)+be64(5000)+be64(2e9))
	if got := p.append(nil); !bytes.Equal(got, want) {
		t.Errorf("params = %x\nwant     %x", got, want)
	}
	for name, b := range map[string][]byte{
		"no queue pairs": append(append([]byte{}, want[:12]...), make([]byte, 116)...),
		"many":           append(append(append([]byte{}, want[:12]...), 0xff, 0xff, 0xff, 0xff), want[16:]...),
		"short":          want[:100],
		"other magic":    append([]byte("pverbs2\x00"), want[8:]...),
	} {
		if p, err := parseParams(b); err == nil {
			t.Errorf("%s: parseParams = %+v, want an error", name, p)
		}
	}
}

// TestSettle: the server of a one-sided test takes what its client wants, as perftest's does.
func TestSettle(t *testing.T) {
	server := Params{Verb: Write, Metric: Bandwidth, Size: 65536, Iters: 5000, QPs: 1}
	for _, tc := range []struct {
		name   string
		change func(server, client *Params)
		agree  bool
	}{
		{"iterations", func(_, c *Params) { c.Iters = 2000 }, true},
		{"duration", func(_, c *Params) { c.Iters, c.Duration = 0, time.Second }, true},
		{"a smaller size", func(_, c *Params) { c.Size = 2 }, true},
		{"a sweep that fits", func(s, c *Params) { s.Size, c.Size, c.All = 8<<20, 8<<20, true }, true},
		{"a larger size", func(_, c *Params) { c.Size = 1 << 20 }, false},
		{"queue pairs", func(_, c *Params) { c.QPs = 2 }, false},
		{"read lat", func(s, c *Params) {
			s.Verb, c.Verb, s.Metric, c.Metric, c.Iters = Read, Read, Latency, Latency, 7
		}, true},
		{"write lat", func(s, c *Params) { s.Metric, c.Metric, c.Iters = Latency, Latency, 7 }, false},
		{"send", func(s, c *Params) { s.Verb, c.Verb, c.Iters = Send, Send, 7 }, false},
		{"both directions", func(s, c *Params) { s.Bidirectional, c.Bidirectional, c.Iters = true, true, 7 }, false},
		{"reversed, a larger server", func(s, c *Params) { s.Reversed, c.Reversed, c.Size = true, true, 2 }, false},
		{"reversed, a larger client", func(s, c *Params) { s.Reversed, c.Reversed, s.Size = true, true, 2 }, true},
		{"endless", func(_, c *Params) { c.Infinite = true }, false},
	} {
		s, c := server, server
		tc.change(&s, &c)
		for _, takes := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
			s, c := s, c
			s.Takes, c.Takes = takes[0], takes[1]
			takes := s.Takes && c.Takes
			// An older rdmaperf takes neither queue pairs nor a larger size, nor an endless run.
			agree := tc.agree || takes && slices.Contains([]string{"a larger size", "queue pairs", "endless",
				"reversed, a larger server"}, tc.name)
			atServer := s.Check(s.settle(c, Server))
			atClient := c.Check(c.settle(s, Client))
			if (atServer == nil) != agree || (atClient == nil) != agree {
				t.Errorf("%s, takes %v: server %v, client %v, want agreement %v", tc.name, takes, atServer, atClient,
					agree)
			}
			want, waits, works, role := Asked{}, s, c, Server
			if s.Reversed {
				waits, works, role = c, s, Client
			}
			oneSided := agree && tc.name != "send" && tc.name != "both directions" && tc.name != "write lat"
			if takes && oneSided {
				want = Asked{works.QPs, works.Size, works.Infinite}
			}
			if got := waits.asked(works, role); got != want {
				t.Errorf("%s, takes %v: %+v is taken, want %+v", tc.name, takes, got, want)
			}
			if got := works.asked(waits, Server+Client-role); got != (Asked{}) {
				t.Errorf("%s: the end that works takes %+v", tc.name, got)
			}
		}
	}
}

// TestFinishUnacked: where the last message may fail if the connection ends, the end that has got it leaves last.
func TestFinishUnacked(t *testing.T) {
	for _, tc := range []struct {
		role          Role
		unacked, ours bool
		waits         bool
	}{
		{Client, false, false, false},
		{Client, false, true, false},
		{Client, true, false, true},
		{Client, true, true, true},
		{Server, true, true, false},
	} {
		w, raw := pair(t, tc.role, testutil.Patience)
		w.UseStructs()
		if w.ours = tc.ours; tc.unacked {
			w.Unacked()
		}
		done := make(chan error, 1)
		go func() { done <- w.Finish(Dest{}, testutil.Patience) }()
		in := make([]byte, structLen)
		if tc.role == Server {
			raw.Write(make([]byte, structLen))
		}
		if _, err := io.ReadFull(raw, in); err != nil {
			t.Fatalf("%+v: %v", tc, err)
		}
		if tc.role == Client {
			raw.Write(make([]byte, structLen))
		}
		if tc.waits { // then nothing ends until the peer does
			select {
			case err := <-done:
				t.Errorf("%+v: it did not wait: %v", tc, err)
			case <-time.After(20 * time.Millisecond):
			}
			raw.Close()
		}
		if err := <-done; err != nil {
			t.Errorf("%+v: %v", tc, err)
		}
		if !tc.waits {
			raw.SetReadDeadline(time.Now().Add(testutil.Patience))
			if _, err := raw.Read(in); err != io.EOF {
				t.Errorf("%+v: %v, want the end", tc, err)
			}
		}
	}
}
