package model_test

import (
	"testing"
	"time"

	"hermes/internal/fakellm/model"
)

func TestParseLatency(t *testing.T) {
	l, err := model.ParseLatency("100ms+lognormal:1s,0.5+tokens:50")
	if err != nil || l.Fixed != 100*time.Millisecond || l.Median != time.Second || l.Sigma != 0.5 || l.TokenRate != 50 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []string{"x", "nope:1s", "tokens:-1"} {
		if _, err := model.ParseLatency(bad); err == nil {
			t.Errorf("latency %q was accepted", bad)
		}
	}
}
