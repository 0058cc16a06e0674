package agent

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// tap is a connection that keeps what was written, and may change it.
type tap struct {
	net.Conn
	mu     sync.Mutex
	wrote  bytes.Buffer
	change func(written int, b []byte) []byte // may be nil
}

func (c *tap) Write(b []byte) (int, error) {
	c.mu.Lock()
	at := c.wrote.Len()
	c.wrote.Write(b)
	c.mu.Unlock()
	out := b
	if c.change != nil {
		out = c.change(at, bytes.Clone(b))
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// meeting has two ends meet, and returns what each has of it.
func meeting(t *testing.T, listens, dials net.Conn, lt, dt Token) (l, d *frames, lerr, derr error) {
	t.Helper()
	for _, c := range []net.Conn{listens, dials} {
		c.SetDeadline(time.Now().Add(testutil.Patience))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l, lerr = authenticate(listens, lt); lerr != nil {
			listens.Close()
		}
	}()
	if d, derr = introduce(dials, dt); derr != nil {
		dials.Close()
	}
	<-done
	return l, d, lerr, derr
}

// TestMeet: both ends know that the other has the token, and what one sends the other receives, encrypted.
func TestMeet(t *testing.T) {
	here, there := net.Pipe()
	wire := &tap{Conn: here}
	l, d, lerr, derr := meeting(t, wire, there, good, good)
	if lerr != nil || derr != nil {
		t.Fatal(lerr, derr)
	}
	if s := d.Conn.(*tls.Conn).ConnectionState(); s.Version != tls.VersionTLS13 {
		t.Errorf("TLS %x", s.Version)
	}
	go l.send(reply{Error: "in secret"})
	var r reply
	if err := d.receive(&r, maxReply); err != nil || r.Error != "in secret" {
		t.Errorf("%+v, %v", r, err)
	}
	if strings.Contains(wire.wrote.String(), "secret") || !strings.HasPrefix(wire.wrote.String(), greeting) {
		t.Errorf("on the wire: %q", wire.wrote.String())
	}
}

// TestMeet_Token: with another token at one end, both find out, and the token itself is not on the wire.
func TestMeet_Token(t *testing.T) {
	wrong := Token{[]byte("fedcba9876543210")}
	for _, tokens := range [][2]Token{{good, wrong}, {wrong, good}} {
		here, there := net.Pipe()
		a, b := &tap{Conn: here}, &tap{Conn: there}
		_, _, lerr, derr := meeting(t, a, b, tokens[0], tokens[1])
		if !errors.Is(lerr, ErrToken) || !errors.Is(derr, ErrToken) {
			t.Errorf("%v, %v, want another token", lerr, derr)
		}
		for _, token := range tokens {
			if all := append(a.wrote.Bytes(), b.wrote.Bytes()...); bytes.Contains(all, token.secret) {
				t.Error("a token is on the wire")
			}
		}
	}
}

// TestMeet_Replay: what a dialer said once is of no use to those that say it again.
func TestMeet_Replay(t *testing.T) {
	here, there := net.Pipe()
	wire := &tap{Conn: there}
	if _, _, lerr, derr := meeting(t, here, wire, good, good); lerr != nil || derr != nil {
		t.Fatal(lerr, derr)
	}
	here, there = net.Pipe()
	here.SetDeadline(time.Now().Add(testutil.Patience))
	go io.Copy(io.Discard, there)
	go func() {
		there.Write(wire.wrote.Bytes())
		there.Close()
	}()
	if _, err := authenticate(here, good); err == nil {
		t.Error("a replayed dialer is taken for one that has the token")
	}
}

// stranger meets as a listener or dialer that has no token: it completes TLS, and then says what proof makes of the
// proof that it got.
func stranger(t *testing.T, c net.Conn, proof func(got []byte) []byte) {
	t.Helper()
	io.WriteString(c, greeting+filler+"\n")
	config, err := serverConfig()
	if err != nil {
		t.Error(err)
		return
	}
	enc := tls.Server(c, config)
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(enc, got); err != nil {
		t.Error(err)
		return
	}
	enc.Write(append([]byte{'+'}, proof(got)...))
}

// TestMeet_Reflected: a listener that returns the dialer's own proof does not know the token.
func TestMeet_Reflected(t *testing.T) {
	for name, proof := range map[string]func([]byte) []byte{
		"reflected": func(got []byte) []byte { return got },
		"zeros":     func([]byte) []byte { return make([]byte, sha256.Size) },
	} {
		here, there := net.Pipe()
		there.SetDeadline(time.Now().Add(testutil.Patience))
		go stranger(t, here, proof)
		if _, err := introduce(there, good); !errors.Is(err, ErrToken) {
			t.Errorf("%s: %v, want another token", name, err)
		}
	}
}

// TestMeet_Between: neither end trusts a man in the middle that has a TLS connection with each and hands the proofs on.
func TestMeet_Between(t *testing.T) {
	listens, left := net.Pipe()
	right, dials := net.Pipe()
	for _, c := range []net.Conn{listens, left, right, dials} {
		c.SetDeadline(time.Now().Add(testutil.Patience))
	}
	done := make(chan error, 2)
	go func() {
		_, err := authenticate(listens, good)
		listens.Close()
		done <- err
	}()
	go func() {
		_, err := introduce(dials, good)
		dials.Close()
		done <- err
	}()
	line := make([]byte, len(greeting)+len(filler)+1)
	if _, err := io.ReadFull(left, line); err != nil {
		t.Fatal(err)
	}
	toListener := tls.Client(left, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	go func() {
		if err := toListener.Handshake(); err != nil {
			t.Error(err)
		}
	}()
	stranger(t, right, func(got []byte) []byte {
		toListener.Write(got)
		answer := make([]byte, 1+sha256.Size)
		io.ReadFull(toListener, answer)
		return answer[1:]
	})
	for range 2 {
		if err := <-done; !errors.Is(err, ErrToken) {
			t.Errorf("%v, want another token", err)
		}
	}
}

// TestMeet_Changed: a bit that changes on the way ends the meeting or the connection, wherever it is.
func TestMeet_Changed(t *testing.T) {
	run := func(wire *tap) (err error) {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			wire.Conn = there
			l, d, lerr, derr := meeting(t, here, wire, good, good)
			if err = errors.Join(lerr, derr); err != nil {
				return
			}
			var a, b reply
			go func() {
				d.send(reply{Port: 1})
				d.send(reply{Port: 2})
				there.Close()
			}()
			err = errors.Join(l.receive(&a, maxReply), l.receive(&b, maxReply))
			if err == nil && (a.Port != 1 || b.Port != 2) {
				err = fmt.Errorf("ports %d and %d", a.Port, b.Port)
			}
			here.Close()
		})
		return err
	}
	whole := &tap{}
	if err := run(whole); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < whole.wrote.Len(); at += 11 {
		err := run(&tap{change: func(written int, b []byte) []byte {
			if i := at - written; i >= 0 && i < len(b) {
				b[i] ^= 1
			}
			return b
		}})
		if err == nil {
			t.Errorf("nobody finds out that byte %d of %d has changed", at, whole.wrote.Len())
		}
	}
}

// TestMeet_Earlier: ends of an earlier release, with the first version of the protocol, are told apart from strangers.
func TestMeet_Earlier(t *testing.T) {
	here, there := net.Pipe()
	go fmt.Fprintf(here, "%s1 %032x\n", agentName, 7)
	if _, err := introduce(there, good); !errors.Is(err, ErrVersion) {
		t.Errorf("an earlier listener: %v", err)
	}
	here, there = net.Pipe()
	here.SetDeadline(time.Now().Add(testutil.Patience))
	go func() { // as the earlier dialer does: it reads the whole line
		line := make([]byte, len(agentName)+2+32+1)
		if _, err := io.ReadFull(there, line); err != nil || line[len(line)-1] != '\n' ||
			strings.HasPrefix(string(line), agentName+"1 ") {
			t.Errorf("it gets %q, %v", line, err)
		}
		there.Close()
	}()
	if _, err := authenticate(here, good); err == nil || !strings.Contains(err.Error(), "earlier release") {
		t.Errorf("an earlier dialer: %v", err)
	}
}

// TestMeet_Steps: if packets get lost from some step on, the error says which step was reached.
func TestMeet_Steps(t *testing.T) {
	hello := &Worker{Hello: Hello{Name: "n"}}
	for _, tt := range []struct {
		most int // bytes that arrive of what the dialer writes
		want string
	}{
		{0, "did not reply to the greeting"}, {10, "TLS began"}, {1 << 20, "proved its token"},
	} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			lost := &tap{Conn: there}
			lost.change = func(written int, b []byte) []byte { return b[:min(len(b), max(0, tt.most-written))] }
			if tt.want == "proved its token" { // all until it introduces itself
				lost.change = func(_ int, b []byte) []byte {
					if b[0] == 23 && len(b) > 60 { // data, longer than a proof
						return nil
					}
					return b
				}
			}
			go Attend(t.Context(), lost, good, hello)
			_, err := Accept(t.Context(), here, good)
			if step := (*StepError)(nil); !errors.As(err, &step) || !strings.Contains(err.Error(), tt.want) ||
				tt.most > 0 && !strings.Contains(err.Error(), "MTU") {
				t.Errorf("%d bytes: %v, want %q", tt.most, err, tt.want)
			}
			there.Close()
		})
	}
}
