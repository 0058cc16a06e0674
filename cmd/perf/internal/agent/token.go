package agent

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// TokenEnv is the environment variable that holds the token.
const TokenEnv = "RDMAPERF_TOKEN"

const minToken, maxToken = 16, 1024

// Token is the secret that both ends of a control connection know.
type Token struct{ secret []byte }

// Stdin is the name of standard input as the file of a token: of a launcher that would show the token elsewhere. Its
// first line is read.
const Stdin = "-"

// FromStdin reports whether a token is read from standard input.
func FromStdin(file string) bool { return file == Stdin || file == "/dev/stdin" }

// ReadToken returns the token of a file, or if none is named, that of the environment.
func ReadToken(file string) (Token, error) {
	text, from := os.Getenv(TokenEnv), TokenEnv
	if file != "" {
		b, err := readToken(file)
		if err != nil {
			return Token{}, fmt.Errorf("token: %w", err)
		}
		if text, from = string(b), file; file == Stdin {
			from = "standard input"
		}
	}
	if text == "" {
		return Token{}, errors.New("no token; give all ends the same --token-file, or the same " +
			TokenEnv + " in the environment (openssl rand -hex 16 makes one)" + SudoHint())
	}
	text = strings.TrimSpace(text)
	if len(text) < minToken || len(text) > maxToken {
		return Token{}, fmt.Errorf("token of %d bytes in %s; allowed: %d to %d", len(text), from, minToken, maxToken)
	}
	return Token{[]byte(text)}, nil
}

// SudoHint is a hint for variables that are missing because sudo drops them, or empty.
func SudoHint() string {
	if os.Getenv("SUDO_USER") == "" {
		return ""
	}
	return "; sudo drops variables: sudo --preserve-env=" + TokenEnv + "," + JoinEnv
}

func readToken(file string) ([]byte, error) {
	if !FromStdin(file) { // /dev/stdin cannot be opened if it is a socket, as below some sshd
		return os.ReadFile(file)
	}
	text, b := []byte{}, make([]byte, 1) // what follows the line is left
	for {
		n, err := os.Stdin.Read(b)
		if n == 1 && b[0] != '\n' && len(text) <= maxToken {
			text = append(text, b[0])
			continue
		}
		if n == 1 || err == io.EOF {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// NewToken makes a token, and returns its secret also as text.
func NewToken() (Token, string) {
	text := rand.Text()
	return Token{[]byte(text)}, text
}

// mac returns the HMAC of parts. No part can be moved into its neighbour, because all but the last have fixed lengths.
func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
