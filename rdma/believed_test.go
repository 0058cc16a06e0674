package rdma

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// proofs has the proof or limit of each claim of a peer, and a test that breaks it.
var proofs = map[string]struct{ proof, test string }{
	"a connection's queue pair and path": {"the handshake: only the system that got the reply can confirm it",
		"TestRXE_UnfinishedHandshakes"},
	"address and port of a connection's peer": {"none: only RemoteAddr, Authorize and errors use it",
		"TestRXE_Authorize"},
	"address that a request is for": {"none: a listener at a loopback address rejects others",
		"TestRXE_CM_Loopback"},
	"reads and atomics under way, retries": {"the limits of both devices",
		"TestRXE_CM_InitiatorDepth"},
	"versions": {"the highest that both speak, or a refusal",
		"TestRXE_HostileHello"},
	"kind": {"that of the listener or dialer, or a refusal",
		"TestRXE_HostileHello"},
	"flags: leases, PACKED": {"they permit nothing: this side's options do",
		"TestRXE_HostileClaims"},
	"block": {"1 KiB to 1 MiB; the smaller one of both sides is used",
		"TestRXE_HostileHello"},
	"first limit": {"2 to 64",
		"TestRXE_HostileHello"},
	"longest message of the peer": {"none: this side sends no longer one",
		"TestRXE_HostileClaims"},
	"address and key of a byte to read, on iWARP": {"none: the peer's adapter checks them, and the byte is not used",
		"TestFalseProbe"},
	"the program's private data": {"none",
		"TestRXE_Authorize"},
	"reason of a refusal, RESET or REFUSE": {"none: the error names it",
		"TestRejections"},
	"kind and flags of a frame": {"those of docs/rdma-protocol.md, or RESET",
		"TestRXE_HostileFrames"},
	"number of a frame": {"the next one, or RESET",
		"TestRXE_HostileFrames"},
	"limits of frames": {"they do not decrease, and are at most 64, or 4 about leases, beyond what was sent, or RESET",
		"TestRXE_HostileFrames"},
	"length of a payload": {"that of the SEND, or RESET",
		"TestRXE_HostileFrames"},
	"length of a message": {"MaxMessage, and the sum of its frames, or RESET",
		"TestRXE_HostileFrames"},
	"length of a record": {"the rest of its frame, or RESET",
		"TestRXE_HostileFrames"},
	"FIN, and that the peer reads no more": {"none: it ends this connection alone",
		"TestFINs"},
	"immediate of a message": {"none. An unknown call number is dropped by Caller and ends Serve",
		"TestCallClaims"},
	"address, length and key of a LEND": {"a range of memory; the peer's adapter checks each access",
		"TestRXE_HostileLeases"},
	"rights and duration of a LEND": {"known ones; they limit this side",
		"TestRXE_HostileLeases"},
	"number of a lease or request": {"one of this connection, in its order, or RESET",
		"TestRXE_HostileLeases"},
	"EXTEND and REVOKE": {"they limit this side",
		"TestRXE_HostileLeases"},
	"bytes, rights and duration of a REQUEST": {"LeaseOptions and OnRequest",
		"TestRXE_LeaseRequestLimits"},
	"RETURN: the peer accesses the memory no more": {"none: the key is revoked before Wait returns",
		"TestRXE_HostileHolder"},
	"address and key of a read, write or atomic": {"this side's adapter checks them",
		"TestRXE_HostileLeases"},
	"source of a datagram: GID or LID, and QPN": {"the adapters, if the network filters sources",
		"TestRXE_PacketNames"},
	"port of a datagram": {"the reply of the port's owner, and the datagram",
		"TestRXE_PacketNames"},
	"announcement: QPN and port": {"none: the port's owner is asked",
		"TestRXE_PacketNames"},
	"queue pair of an address": {"the reply of the port's owner: 0x2 to 0xfffffe",
		"TestRXE_PacketOwners"},
	"Q_Key of an address": {"the same reply",
		"TestPacketNames"},
	"service level, flow label and traffic class of a datagram": {"none: replies have the same",
		"TestRXE_Packet"},
}

// believed has the claim in proofs for each field of what a peer sends, "" for what it does not.
var believed = map[string]string{
	"Hello.Min": "versions", "Hello.Max": "versions", "Hello.Kind": "kind", "Hello.Flags": "flags: leases, PACKED",
	"Hello.Block": "block", "Hello.Limit": "first limit", "Hello.MaxMessage": "longest message of the peer",
	"Hello.App": "the program's private data", "Hello.Probe": "address and key of a byte to read, on iWARP",
	"Hello._": "",

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

// TestBelieved: proofs has a claim for each field of what a peer sends, and each claim names a test.
func TestBelieved(t *testing.T) {
	used := map[string]bool{"": true}
	for field, row := range believed {
		if used[row] = true; row != "" && proofs[row].proof == "" {
			t.Errorf("%s: %q has no proof or limit", field, row)
		}
	}
	for row := range proofs {
		if !used[row] {
			t.Errorf("%q is of nothing that a peer sends", row)
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
	for claim, l := range proofs {
		if !strings.Contains(tests.String(), "\nfunc "+l.test+"(t *testing.T)") {
			t.Errorf("%s: there is no test %q", claim, l.test)
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
