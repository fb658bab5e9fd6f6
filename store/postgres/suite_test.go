package postgres

import (
	"testing"

	"github.com/postrider/postrider/store/storetest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newSetup(t, option{}).harness(t) })
}
