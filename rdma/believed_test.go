package rdma

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// believed has the row of docs/rdma-protocol.md for each field of what a peer sends, "" for what it does not.
var believed = map[string]string{
	"Hello.Min": "versions", "Hello.Max": "versions", "Hello.Kind": "kind", "Hello.Flags": "flags: leases, PACKED",
	"Hello.Block": "block", "Hello.Limit": "first limit", "Hello.MaxMessage": "longest message of the peer",
	"Hello.App": "the program's private data", "Hello.Probe": "address and key of a byte to read, on iWARP",

	"Rejection.Min": "versions", "Rejection.Max": "versions",
	"Rejection.Reason": "reason of a refusal, RESET or REFUSE",

	"Header.Kind": "kind and flags of a frame", "Header.Flags": "kind and flags of a frame",
	"Header.Seq": "number of a frame", "Header.Limit": "limits of frames", "Header.Length": "length of a payload",
	"Header.Aux of MORE":        "length of a message",
	"Header.Aux of IMM":         "immediate of a message",
	"Header.Aux of LIMIT":       "limits of frames",
	"Header.Aux of FIN":         "FIN, and that the peer reads no more",
	"Header.Aux of PING":        "FIN, and that the peer reads no more",
	"Header.Aux of RESET":       "reason of a refusal, RESET or REFUSE",
	"Header.Aux about leases":   "number of a lease or request",
	"record: length":            "length of a record",
	"record: immediate":         "immediate of a message",
	"number of EXTEND, REVOKE":  "EXTEND and REVOKE",
	"number of RETURN":          "RETURN: the peer accesses the memory no more",
	"number of REFUSE":          "reason of a refusal, RESET or REFUSE",
	"work request: AddrAndRKey": "address and key of a read, write or atomic",

	"LendFrame.Addr": "address, length and key of a LEND", "LendFrame.Length": "address, length and key of a LEND",
	"LendFrame.RKey": "address, length and key of a LEND", "LendFrame.Milliseconds": "rights and duration of a LEND",
	"LendFrame.Access": "rights and duration of a LEND", "LendFrame.Flags": "rights and duration of a LEND",
	"LendFrame.Request": "number of a lease or request",

	"RequestFrame.Bytes":        "bytes, rights and duration of a REQUEST",
	"RequestFrame.Milliseconds": "bytes, rights and duration of a REQUEST",
	"RequestFrame.Access":       "bytes, rights and duration of a REQUEST",

	"ConnParam.PrivateData": "the program's private data", "ConnParam.QPN": "a connection's queue pair and path",
	"ConnParam.ResponderResources": "reads and atomics under way, retries",
	"ConnParam.InitiatorDepth":     "reads and atomics under way, retries",
	"ConnParam.RetryCount":         "reads and atomics under way, retries",
	"ConnParam.RNRRetryCount":      "reads and atomics under way, retries",
	"ConnParam.FlowControl":        "", "ConnParam.OwnRNRRetryCount": "", "ConnParam.Access": "", "ConnParam.SRQ": "",
	"ID.PeerAddr": "address and port of a connection's peer", "ID.LocalAddr": "address that a request is for",

	"UDParam.AH": "queue pair of an address", "UDParam.QPN": "queue pair of an address",
	"UDParam.QKey":               "Q_Key of an address",
	"announcement":               "announcement: QPN and port",
	"datagram: GRH, LID, SrcQPN": "source of a datagram: GID or LID, and QPN",
	"datagram: immediate":        "port of a datagram",
	"datagram: SL, GRH":          "service level, flow label and traffic class of a datagram",
}

// TestBelieved: docs/rdma-protocol.md has a row for each field of what a peer sends, and each row names a test.
func TestBelieved(t *testing.T) {
	page, err := os.ReadFile("../docs/rdma-protocol.md")
	ok(t, err)
	_, section, found := strings.Cut(string(page), "### What a side believes")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("the page has no such section")
	}
	rows := map[string]string{} // learned, and its test
	for _, m := range regexp.MustCompile("(?m)^\\| (.+?) \\| .+ \\| `(\\w+)` \\|$").FindAllStringSubmatch(section, -1) {
		rows[m[1]] = m[2]
	}
	if n := strings.Count(section, "\n| ") - 1; n != len(rows) {
		t.Errorf("%d rows have three cells, of %d", len(rows), n)
	}
	used := map[string]bool{"": true}
	for field, row := range believed {
		if used[row] = true; row != "" && rows[row] == "" {
			t.Errorf("%s: the page has no row %q", field, row)
		}
	}
	for row := range rows {
		if !used[row] {
			t.Errorf("the row %q is of nothing that a peer sends", row)
		}
	}
	for _, v := range []any{wire.Hello{}, wire.Rejection{}, wire.Header{}, wire.LendFrame{}, wire.RequestFrame{},
		rdmacm.ConnParam{}, rdmacm.UDParam{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name := reflect.TypeOf(v).Name() + "." + f.Name
			if _, known := believed[name]; !known && name != "Header.Aux" {
				t.Errorf("%s is in no row", name)
			}
		}
	}
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", "internal/*/*_test.go", "../rdmacm/*_test.go"} {
		files, err := filepath.Glob(pattern)
		ok(t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			ok(t, err)
			tests.Write(b)
		}
	}
	for _, name := range slices.Sorted(maps.Values(rows)) {
		if !strings.Contains(tests.String(), "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("there is no test %s", name)
		}
	}
}

// TestCallClaims has a peer claim numbers of calls: replies to none are dropped, and what is no call ends Serve.
func TestCallClaims(t *testing.T) {
	a, b, err := Pipe(nil)
	ok(t, err)
	caller, err := NewCaller(a)
	ok(t, err)
	ok(t, b.Send(timeout(t), []byte("no number")))
	ok(t, b.SendImm(timeout(t), 77, []byte("of no call")))
	ok(t, b.SendImm(timeout(t), 78|callFailed, []byte("a failure of no call")))
	replied := make(chan error)
	go func() {
		m, err := b.Recv(timeout(t))
		if err == nil {
			id, _ := m.Imm()
			m.Release()
			err = b.SendImm(timeout(t), id, []byte("the reply"))
		}
		replied <- err
	}()
	m, err := caller.Call(timeout(t), []byte("a call"))
	ok(t, err)
	if string(m.Bytes()) != "the reply" {
		t.Errorf("the reply is %q", m.Bytes())
	}
	m.Release()
	ok(t, <-replied)
	ok(t, caller.Close())
	ok(t, b.Close())
	for _, imm := range []func(c *Conn) error{
		func(c *Conn) error { return c.Send(timeout(t), []byte("no number")) },
		func(c *Conn) error { return c.SendImm(timeout(t), 1|callFailed, nil) },
	} {
		a, b, err := Pipe(nil)
		ok(t, err)
		ok(t, imm(a))
		err = Serve(timeout(t), b, nil)
		if !isProtocol(err) {
			t.Errorf("Serve: %v, want a *ProtocolError", err)
		}
		ok(t, a.CloseNow())
		ok(t, b.CloseNow())
	}
	ok(t, CloseIdle())
}
