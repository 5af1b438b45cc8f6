package org.apache.beam.runners.fnexecution.control;

import java.util.Collections;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.DelayedBundleApplication;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.ProcessBundleResponse;
import org.apache.beam.runners.core.StateInternalsFactory;
import org.apache.beam.runners.core.StateNamespace;
import org.apache.beam.runners.core.StateNamespaces;
import org.apache.beam.runners.core.StateTags;
import org.apache.beam.runners.core.TimerInternalsFactory;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.util.CoderUtils;
import org.apache.beam.sdk.util.WindowedValue;
import org.joda.time.Instant;

/**
 * Takes the place of Beam 2.62's class of this name, which makes a new Flink state for every poll of a source, 150 kB of
 * heap each, for ever (apache/beam issue 27648; mended in July 2026). Here a source's next poll takes the place of its
 * last: Flink never splits what a source reads, so that a key has one at a time.
 */
public class BundleCheckpointHandlers {
  public static class StateAndTimerBundleCheckpointHandler<T> implements BundleCheckpointHandler {
    public static final String SDF_PREFIX = "sdf_checkpoint";

    private final TimerInternalsFactory<T> timers;
    private final StateInternalsFactory<T> states;
    private final Coder<WindowedValue<T>> coder;
    private final Coder<BoundedWindow> windowCoder;

    @SuppressWarnings({"rawtypes", "unchecked"})
    public StateAndTimerBundleCheckpointHandler(
        TimerInternalsFactory<T> timers, StateInternalsFactory<T> states, Coder<WindowedValue<T>> coder, Coder windowCoder) {
      this.timers = timers;
      this.states = states;
      this.coder = coder;
      this.windowCoder = windowCoder;
    }

    public static boolean isSdfTimer(String timerId) {
      return timerId.startsWith(SDF_PREFIX);
    }

    @Override
    public void onCheckpoint(ProcessBundleResponse response) {
      try {
        for (DelayedBundleApplication residual : response.getResidualRootsList()) {
          if (residual.hasApplication()) {
            keep(residual);
          }
        }
      } catch (Exception e) {
        throw new RuntimeException("A source's next poll could not be kept", e);
      }
    }

    private void keep(DelayedBundleApplication residual) throws Exception {
      WindowedValue<T> rest =
          CoderUtils.decodeFromByteArray(coder, residual.getApplication().getElement().toByteArray());
      Instant next = Instant.now().plus(1000 * residual.getRequestedTimeDelay().getSeconds());
      Instant held =
          residual.getApplication().getOutputWatermarksMap().values().stream()
              .map(watermark -> Instant.ofEpochMilli(1000 * watermark.getSeconds()))
              .min(Instant::compareTo)
              .orElse(BoundedWindow.TIMESTAMP_MIN_VALUE);
      for (BoundedWindow window : rest.getWindows()) {
        StateNamespace namespace = StateNamespaces.window(windowCoder, window);
        timers.timerInternalsForKey(rest.getValue())
            .setTimer(namespace, SDF_PREFIX, "", next, held, TimeDomain.PROCESSING_TIME);
        states.stateInternalsForKey(rest.getValue())
            .state(namespace, StateTags.value(SDF_PREFIX, coder))
            .write(WindowedValue.of(rest.getValue(), rest.getTimestamp(), Collections.singletonList(window), rest.getPane()));
      }
    }
  }
}
