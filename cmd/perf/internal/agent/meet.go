package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// The greeting has as many bytes as that of version 1, whose dialers read them all before they look at the version.
const (
	agentName = "pureverbs-agent "
	greeting  = agentName + "2 "
	filler    = "TLS 1.3, and proofs of the token"
)

// Roles in a proof: so that neither end's can be sent back to it.
const (
	dialer   = "dialer"
	listener = "listen"
)

// StepError is a meeting that ended early.
type StepError struct {
	Reached string
	Err     error
}

// Error returns one line.
func (e *StepError) Error() string {
	var timed net.Error
	ended := errors.Is(e.Err, io.EOF) || errors.Is(e.Err, io.ErrUnexpectedEOF)
	switch {
	case e.Reached == ungreeted:
		return e.Reached
	case ended || errors.As(e.Err, &timed) && timed.Timeout():
		return e.Reached + ", and then nothing more came: large packets may be lost; compare the MTU of all " +
			"interfaces and switches between the hosts"
	}
	return fmt.Sprintf("%s: %v", e.Reached, e.Err)
}

const ungreeted = "it connected, and did not reply to the greeting, as rdmaperf of an earlier release"

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// authenticate is the part of the end that listens.
func authenticate(c net.Conn, t Token) (*frames, error) {
	if _, err := io.WriteString(c, greeting+filler+"\n"); err != nil {
		return nil, err
	}
	config, err := serverConfig()
	if err != nil {
		return nil, err
	}
	heard := &counter{Conn: c}
	enc := tls.Server(heard, config)
	if err := enc.Handshake(); err != nil {
		if !heard.any {
			return nil, &StepError{ungreeted, err}
		}
		return nil, &StepError{"it connected, and TLS began", err}
	}
	own, want, err := proofs(enc, t, listener, dialer)
	if err != nil {
		return nil, err
	}
	proof := make([]byte, sha256.Size)
	if _, err := io.ReadFull(enc, proof); err != nil {
		return nil, &StepError{"it connected, and TLS is up", err}
	}
	if !hmac.Equal(proof, want) {
		enc.Write([]byte{'-'})
		return nil, ErrToken
	}
	if _, err := enc.Write(append([]byte{'+'}, own...)); err != nil {
		return nil, err
	}
	return &frames{Conn: enc, raw: c}, nil
}

// introduce is the part of the end that dials.
func introduce(c net.Conn, t Token) (*frames, error) {
	line := make([]byte, len(greeting)+len(filler)+1)
	if _, err := io.ReadFull(c, line); err != nil {
		return nil, &StepError{"it accepted the connection", err}
	}
	switch text := string(line); {
	case text == greeting+filler+"\n":
	case strings.HasPrefix(text, agentName):
		return nil, ErrVersion
	default:
		return nil, ErrNoAgent
	}
	enc := tls.Client(c, &tls.Config{
		InsecureSkipVerify: true, // the proofs authenticate both ends, and this connection with them
		MinVersion:         tls.VersionTLS13,
		CurvePreferences:   curves,
	})
	if err := enc.Handshake(); err != nil {
		return nil, &StepError{"it greeted, and TLS began", err}
	}
	own, want, err := proofs(enc, t, dialer, listener)
	if err == nil {
		_, err = enc.Write(own)
	}
	if err != nil {
		return nil, err
	}
	reply := make([]byte, 1+sha256.Size)
	if _, err := io.ReadFull(enc, reply[:1]); err != nil {
		return nil, &StepError{"TLS is up, and the proof of the token was sent", err}
	}
	if reply[0] != '+' {
		return nil, ErrToken
	}
	if _, err := io.ReadFull(enc, reply[1:]); err != nil {
		return nil, &StepError{"TLS is up, and the proof of the token was sent", err}
	}
	if !hmac.Equal(reply[1:], want) {
		return nil, ErrToken
	}
	return &frames{Conn: enc, raw: c}, nil
}

// proofs returns what this end sends to prove that it knows the token, and what the other end has to send. They are of
// this connection alone: one that somebody else has with each of the two ends has other keys.
func proofs(c *tls.Conn, t Token, own, other string) (mine, theirs []byte, err error) {
	s := c.ConnectionState()
	keys, err := s.ExportKeyingMaterial("EXPORTER-pureverbs-agent", nil, sha256.Size)
	if err != nil {
		return nil, nil, err
	}
	return mac(t.secret, []byte(own), keys), mac(t.secret, []byte(other), keys), nil
}

// curves has one with short keys, so that the first packets of a connection are small, also where large ones get lost.
var curves = []tls.CurveID{tls.X25519}

// serverConfig makes the key and the certificate of this run.
var serverConfig = sync.OnceValues(func() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:             tls.VersionTLS13,
		CurvePreferences:       curves,
		SessionTicketsDisabled: true,
	}, nil
})

// counter notes whether anything came.
type counter struct {
	net.Conn
	any bool
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.any = c.any || n > 0
	return n, err
}
