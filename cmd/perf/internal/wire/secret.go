package wire

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
)

// SecretEnv is the environment variable with the secret of a test, which both ends of it have.
const SecretEnv = "RDMAPERF_TEST_SECRET"

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

var errProof = errors.New("it does not know the secret of the test")
