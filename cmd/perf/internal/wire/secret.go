package wire

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"time"
)

// SecretEnv is the environment variable with the secret of a test, which both ends of it have.
const SecretEnv = "PERF_TEST_SECRET"

// Secret shows a server which connection is its client: the client's first message has it. Strangers, such as port
// scanners, are closed and change nothing. "": there is none, and the first client is served, as by perftest.
type Secret string

// NewSecret returns the secret of one test.
func NewSecret() Secret { return Secret(rand.Text()) }

type secretKey struct{}

// With returns a context whose tests have the secret.
func (s Secret) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, secretKey{}, s)
}

// SecretOf returns the secret of the tests of a context, "" if they have none.
func SecretOf(ctx context.Context) Secret {
	s, _ := ctx.Value(secretKey{}).(Secret)
	return s
}

// ProofLen is the length of a proof.
const ProofLen = 16

// Proof returns what a client sends, nil without a secret.
func (s Secret) Proof() []byte {
	if s == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("pverbs test " + s))
	return sum[:ProofLen]
}

// ProvedBy reports whether what a client sent is the proof, or there is no secret.
func (s Secret) ProvedBy(b []byte) bool {
	return s == "" || len(b) >= ProofLen && subtle.ConstantTimeCompare(b[:ProofLen], s.Proof()) == 1
}

// Prove sends the proof, if there is a secret, before the first step.
func (w *Conn) Prove(s Secret) error {
	if s == "" {
		return nil
	}
	return w.write("secret", s.Proof())
}

// Limits of strangers at a server.
const (
	proofTime    = 5 * time.Second // for a connection to send its proof
	mostStrange  = 256             // connections that have not
	strangerTime = 100 * time.Millisecond
)

// friend waits for the connection that knows the secret, and closes all others. Nothing listens after that.
func (l *Listener) friend(s Secret) (net.Conn, error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	found := make(chan net.Conn, 1)
	strange := Strangers{Most: mostStrange, Time: strangerTime}
	for {
		c, err := l.ln.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed), ctx.Err() != nil:
			cancel()
			l.wg.Wait()
			select {
			case c := <-found:
				return c, nil
			default:
				return nil, err
			}
		default:
			time.Sleep(10 * time.Millisecond) // for example because no descriptor is free
			continue
		}
		strange.Admit(c)
		l.wg.Go(func() {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			c.SetReadDeadline(time.Now().Add(proofTime))
			proof := make([]byte, ProofLen)
			_, err := io.ReadFull(c, proof)
			strange.Known(c)
			if stop() && err == nil && s.ProvedBy(proof) {
				c.SetReadDeadline(time.Time{})
				select {
				case found <- c:
					l.ln.Close()
					return
				default: // a second one
				}
			}
			c.Close()
		})
	}
}
