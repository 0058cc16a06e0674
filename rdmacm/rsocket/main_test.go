package rsocket

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

// TestMain fails when a test leaves a socket or a poller open.
func TestMain(m *testing.M) { emulated.Main(m) }
