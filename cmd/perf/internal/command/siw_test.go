package command

import (
	"bytes"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/cm"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestSIW_StockCM runs perftest's programs against ours with -R on iWARP, in both roles.
func TestSIW_StockCM(t *testing.T) {
	vm := testutil.NeedSIW(t)
	for _, k := range kinds {
		ours := []string{"rdmaperf", k.verb, k.metric, "--json", "-n", "50", "-s", "4096"}
		stock := stockName("", k.verb, k.metric)
		theirs := append(stockOf(t, "", k.verb, k.metric), "-n", "50", "-s", "4096")
		t.Run(stock+"/we serve", func(t *testing.T) {
			srv, cli := pairCM(t, vm, ours, theirs)
			stockRow(t, cli, "4096")
			if o := srv.outcome(t); o.Error != "" || o.Peer.Ours || !o.Test.RDMACM {
				t.Errorf("%+v", o)
			}
		})
		t.Run(stock+"/stock serves", func(t *testing.T) {
			_, cli := pairCM(t, vm, theirs, ours)
			if o := cli.outcome(t); o.Error != "" || o.Peer.Ours || !o.Test.RDMACM || len(o.Results) == 0 {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestSIW_Credits sends more messages than the peer has receives, so both ends need credits for most of them.
func TestSIW_Credits(t *testing.T) {
	vm := testutil.NeedSIW(t)
	for _, row := range []struct {
		name, args, ours string // ours: of rdmaperf alone
		sizes            int
	}{
		{"default depth", "-n 2000 -s 1024", "", 1},
		{"few receives", "-n 1000 -s 4096 -r 20", "", 1},
		{"lists", "-n 1600 -s 64 -r 64 -l 16", "", 1},
		{"by time", "-D 2 -s 1024", "", 1},
		{"queue pairs", "-n 1000 -s 1024 -r 60 -q 2", "", 1},
		{"threads", "-n 1000 -s 1024 -r 60 -q 4", "--threads 2", 1},
		{"all sizes", "-a -n 20 -r 6", "", 23},
		{"both directions", "-b -n 1000 -s 1024 -r 60", "", 1},
		{"both directions, queue pairs", "-b -n 1000 -s 1024 -r 60 -q 2", "", 1},
		{"both directions, by time", "-b -D 2 -s 1024", "", 1},
		{"both directions, all sizes", "-b -a -n 20 -r 6", "", 23},
	} {
		args := strings.Fields(row.args)
		ours := append([]string{"rdmaperf", "send", "bw", "--json"}, append(strings.Fields(row.ours), args...)...)
		theirs := append(stockOf(t, "", "send", "bw"), args...)
		check := func(t *testing.T, p *proc) {
			o := p.outcome(t)
			if o.Error != "" || o.Peer.Ours || len(o.Results) != row.sizes {
				t.Fatalf("%d results, want %d: %+v", len(o.Results), row.sizes, o)
			}
			for _, r := range o.Results {
				if !(r.Bits > 0) && (r.Sent == nil || !(r.Sent.Bits > 0)) {
					t.Errorf("%d bytes: %+v", r.Bytes, r)
				}
			}
		}
		t.Run(row.name+"/we serve", func(t *testing.T) {
			srv, cli := pairCM(t, vm, ours, theirs)
			size := "8388608"
			if i := slices.Index(args, "-s"); i >= 0 {
				size = args[i+1]
			}
			stockRow(t, cli, size)
			check(t, srv)
		})
		t.Run(row.name+"/stock serves", func(t *testing.T) {
			_, cli := pairCM(t, vm, theirs, ours)
			check(t, cli)
		})
	}
	t.Run("events/stock serves", func(t *testing.T) { // perftest's client sleeps when nothing is to come
		args := []string{"-n", "600", "-s", "1024", "-r", "60", "-e"}
		_, cli := pairCM(t, vm, append(stockOf(t, "", "send", "bw"), args...),
			append([]string{"rdmaperf", "send", "bw", "--json"}, args...))
		if o := cli.outcome(t); o.Error != "" || len(o.Results) != 1 {
			t.Errorf("%+v", o)
		}
	})
	for _, row := range []struct{ args, want string }{
		{"-n 1000 -r 60 --recv-post-list 8", "list of receives (--recv-post-list) 8"},
		{"-b -n 1024 -r 60 -l 64", "post list (-l) 64 > 40"},
	} {
		t.Run("refused/"+row.args, func(t *testing.T) {
			port := freshPort()
			srv := start(t, "rdmaperf", append([]string{"send", "bw", "-R", "-d", vm.Dev[0], "-p", port},
				strings.Fields(row.args)...)...)
			says(t, srv, "waiting for a client on rdma_cm port "+port)
			theirs := stockOf(t, "", "send", "bw")
			if strings.Contains(row.args, "-b") {
				theirs = append(theirs, "-b")
			}
			start(t, theirs[0], append(theirs[1:], "-R", "-n", "1024", "-r", "60", "-p", port, vm.IP[0])...)
			if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.output(), row.want) {
				t.Errorf("exit code %d\n%s", rc, srv.output())
			}
		})
	}
}

// stockCM is the exchange of two rdmaperf without the mark behind the version, by which they know each other.
type stockCM struct {
	net.Conn
	written, got int // bytes
}

// unmark clears what is behind the version, in b from byte at of all.
func unmark(b []byte, at int) {
	for i := range b {
		if at+i >= len(wire.Version) && at+i < 16 {
			b[i] = 0
		}
	}
}

func (s *stockCM) Write(b []byte) (int, error) {
	out := bytes.Clone(b)
	unmark(out, s.written)
	n, err := s.Conn.Write(out)
	s.written += n
	return n, err
}

func (s *stockCM) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	unmark(b[:n], s.got)
	s.got += n
	return n, err
}

// TestSIW_CreditRefused has a client that advertises memory which it does not have.
func TestSIW_CreditRefused(t *testing.T) {
	vm := testutil.NeedSIW(t)
	ctx := t.Context()
	port := freshPort()
	srv := start(t, "rdmaperf", "send", "bw", "-R", "-n", "1000", "-s", "64", "-d", vm.Dev[0], "-p", port)
	says(t, srv, "waiting for a client on rdma_cm port "+port)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, srv.output())
		}
	}
	n, err := strconv.Atoi(port)
	must(err)
	peer, err := cm.Dial(ctx, vm.IP[0], n, cm.Options{Timeout: testutil.Patience})
	must(err)
	defer peer.Close()
	c := wire.NewConn(ctx, &stockCM{Conn: peer}, wire.Client, testutil.Patience)
	c.UseStructs()
	_, err = c.Hello(wire.Hello{PageSize: os.Getpagesize(), CacheLine: 64, MTU: 3})
	must(err)
	own := wire.Dest{RKey: 0xbad, VAddr: 0x1000}
	step := func(name string) {
		t.Helper()
		_, err := c.Keys(name, own)
		must(err)
	}
	step("before the queue pairs")
	const sent = 200 // the first credit is for 170, or a few more
	qp, err := peer.QP(ctx, 0, rdmacm.Options{PD: peer.Conn().PD(), QP: ibv.QPOptions{MaxSendWR: sent, MaxRecvWR: 1}})
	must(err)
	defer qp.Close()
	for _, name := range []string{"after the queue pairs", "keys", "ready", "keys again", "start"} {
		step(name)
	}
	mr, err := qp.PD().AllocMR(64, ibv.LocalWrite, nil)
	must(err)
	defer mr.Close()
	for i := range sent {
		if _, err := qp.QP().PostSend([]ibv.SendWR{{ID: uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{mr.SGE(0, 64)}}}); err != nil {
			break // the connection has ended
		}
	}
	rc := srv.wait(t)
	for _, want := range []string{"after a credit for 1", "address 0x1000 with key 0xbad, as the peer advertised"} {
		if rc != 1 || !strings.Contains(srv.output(), want) {
			t.Errorf("exit code %d, want %q in\n%s", rc, want, srv.output())
		}
	}
}
