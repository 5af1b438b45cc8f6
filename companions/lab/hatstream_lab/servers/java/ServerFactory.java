package org.apache.beam.sdk.fn.server;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.BindableService;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.Server;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.ServerInterceptors;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.netty.NettyServerBuilder;

/**
 * Takes the place of Beam's class of this name, whose servers listen on every interface and run what anybody sends:
 * these listen on 127.0.0.1 alone. Compiled by maven.py, first on the class path of the local job server.
 */
public abstract class ServerFactory {
  public interface UrlFactory {
    String createUrl(String address, int port);

    static UrlFactory createDefault() {
      return (host, port) -> host + ":" + port;
    }
  }

  public static ServerFactory createDefault() {
    return createWithPortSupplier(() -> 0);
  }

  public static ServerFactory createWithUrlFactory(UrlFactory urls) {
    return createWithUrlFactoryAndPortSupplier(urls, () -> 0);
  }

  public static ServerFactory createWithPortSupplier(Supplier<Integer> ports) {
    return createWithUrlFactoryAndPortSupplier(UrlFactory.createDefault(), ports);
  }

  public static ServerFactory createWithUrlFactoryAndPortSupplier(UrlFactory urls, Supplier<Integer> ports) {
    return new Loopback(urls, ports);
  }

  public abstract Server allocateAddressAndCreate(List<BindableService> services, ApiServiceDescriptor.Builder address)
      throws IOException;

  public abstract Server create(List<BindableService> services, ApiServiceDescriptor address) throws IOException;

  private static class Loopback extends ServerFactory {
    private final UrlFactory urls;
    private final Supplier<Integer> ports;

    private Loopback(UrlFactory urls, Supplier<Integer> ports) {
      this.urls = urls;
      this.ports = ports;
    }

    @Override
    public Server allocateAddressAndCreate(List<BindableService> services, ApiServiceDescriptor.Builder address)
        throws IOException {
      Server server = listen(services, ports.get());
      address.setUrl(urls.createUrl("127.0.0.1", server.getPort()));
      return server;
    }

    @Override
    public Server create(List<BindableService> services, ApiServiceDescriptor address) throws IOException {
      String url = address.getUrl();
      return listen(services, Integer.parseInt(url.substring(url.lastIndexOf(':') + 1)));
    }

    private static Server listen(List<BindableService> services, int port) throws IOException {
      NettyServerBuilder builder =
          NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port))
              .maxInboundMessageSize(Integer.MAX_VALUE)
              .permitKeepAliveTime(20, TimeUnit.SECONDS);
      for (BindableService service : services) {
        builder.addService(
            ServerInterceptors.intercept(service, GrpcContextHeaderAccessorProvider.interceptor()));
      }
      return builder.build().start();
    }
  }
}
